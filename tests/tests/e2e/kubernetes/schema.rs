//! The published schema of the API of Kubernetes, which `tests/engines/kubernetes.sh` puts beside
//! `kubectl`. It knows all keys, so that a wrong one is found.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};
use subagent_tests::harness::say;

/// The kinds of objects that we send or show, with their names in the schema.
const KINDS: [(&str, &str); 3] = [
    ("Pod", "io.k8s.api.core.v1.Pod"),
    ("StatefulSet", "io.k8s.api.apps.v1.StatefulSet"),
    ("DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
];

/// Returns what is wrong with an object of a kind; nothing without the schema on this machine, which is said
/// loudly.
///
/// # Panics
///
/// If the schema is missing with `SUBAGENT_REQUIRE_KUBECTL`, or does not know the kind.
pub(super) fn problems(kind: &str, object: &Value) -> Vec<String> {
    static VALIDATORS: OnceLock<Option<BTreeMap<&str, Validator>>> = OnceLock::new();
    let Some(validators) = VALIDATORS.get_or_init(validators) else { return Vec::new() };
    let validator = validators.get(kind).unwrap_or_else(|| panic!("`{kind}` is not one of {KINDS:?}"));
    validator.iter_errors(object).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn validators() -> Option<BTreeMap<&'static str, Validator>> {
    let Some(path) = path() else {
        let missing = "the schema of Kubernetes is missing: manifests are not checked";
        assert!(std::env::var_os("SUBAGENT_REQUIRE_KUBECTL").is_none(), "{missing}");
        say(&format!("SKIPPED: {missing}"));
        return None;
    };
    let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let validator = |name: &str| {
        let mut of_kind = schema.clone();
        of_kind["$ref"] = json!(format!("#/$defs/{name}"));
        jsonschema::validator_for(&of_kind).unwrap()
    };
    Some(KINDS.into_iter().map(|(kind, name)| (kind, validator(name))).collect())
}

fn path() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let client =
        std::env::split_paths(&folders).map(|folder| folder.join("kubectl")).find(|file| file.exists())?;
    Some(client.with_file_name("definitions.json")).filter(|file| file.exists())
}

#[test]
fn manifests_of_documents_have_the_keys_of_the_published_schema() {
    let text = fs::read_to_string("../docs/fleet.md").unwrap();
    let mut kinds = Vec::new();
    // A block in a list is indented.
    for block in text.split("```yaml\n").skip(1) {
        let lines: Vec<&str> = block.lines().take_while(|line| line.trim() != "```").collect();
        let indent = lines[0].len() - lines[0].trim_start().len();
        let lines: Vec<&str> = lines.iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
        let object: Value = serde_saphyr::from_str(&lines.join("\n")).unwrap();
        if object["apiVersion"].is_null() {
            continue;
        }
        let kind = object["kind"].as_str().unwrap();
        assert_eq!(problems(kind, &object), Vec::<String>::new(), "{object}");
        kinds.push(kind.to_owned());
    }
    assert_eq!(kinds, ["Pod", "StatefulSet"]);
    let mut wrong = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"container": []}});
    assert!(path().is_none() || problems("Pod", &wrong).iter().any(|problem| problem.contains("container")));
    wrong["spec"] = json!({"containers": [{"name": "agent", "image": 7}]});
    assert!(path().is_none() || !problems("Pod", &wrong).is_empty());
}
