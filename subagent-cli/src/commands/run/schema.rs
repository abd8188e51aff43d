//! The file of `--result-schema`.

use std::path::Path;

use serde_json::Value;
use subagent_config::result_schema::ResultSchema;

use crate::context::path_value;
use crate::failure::{Failure, Result};
use crate::input::read_text;

/// Reads a schema.
///
/// # Errors
/// `INVALID_INPUT{path,error,line,column}` for a file that is no JSON, `INVALID_INPUT{path,error,position}` for JSON that
/// is no schema.
pub(crate) fn read(path: &Path) -> Result<ResultSchema> {
    let schema: Value = serde_json::from_str(&read_text(path)?).map_err(|error| {
        Failure::input(format!("--result-schema {} is not JSON: {error}", path.display()))
            .with("path", path_value(path))
            .with("error", error.to_string())
            .with("line", error.line())
            .with("column", error.column())
    })?;
    ResultSchema::of(&schema).map_err(|problem| {
        Failure::input(format!("--result-schema {} {problem}", path.display()))
            .with("path", path_value(path))
            .with("error", problem.error)
            .with("position", problem.at)
            .recommend("correct the schema; a `$ref` has to lead to a place inside the file")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_that_is_no_schema_is_refused_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("schema.json");
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).err().unwrap().details
        };
        let details = refused("{\n  \"type\": object\n}");
        assert_eq!((&details["line"], details["column"].as_u64() > Some(0)), (&json!(2), true));
        let details = refused(r#"{"properties": {"a": {"type": "objekt"}}}"#);
        assert_eq!(details["position"], "/properties/a/type");
    }
}
