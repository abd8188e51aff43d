//! The agent definitions that are compiled into the program. They have the format of user files.

use super::{Definition, DefinitionSource, Reading, read};

const FILES: [(&str, &str); 6] = [
    ("explore", include_str!("builtin/explore.md")),
    ("plan", include_str!("builtin/plan.md")),
    ("general", include_str!("builtin/general.md")),
    ("worker", include_str!("builtin/worker.md")),
    ("title", include_str!("builtin/title.md")),
    ("summary", include_str!("builtin/summary.md")),
];

pub(super) fn all() -> Vec<Definition> {
    let read = |(stem, text): (&str, &str)| match read(text.as_bytes(), stem, DefinitionSource::BuiltIn) {
        Ok(Reading::Definition(definition)) => Some(*definition),
        // A test parses every built-in file.
        _ => None,
    };
    FILES.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_come_with_the_program_can_be_read_and_started() {
        let all = all();
        assert_eq!(all.len(), FILES.len());
        for (definition, (stem, _)) in all.iter().zip(FILES) {
            assert_eq!(definition.name, stem);
            assert!(definition.refusals.is_empty() && definition.notes.is_empty(), "{definition:?}");
            assert!(!definition.prompt.is_empty());
        }
    }
}
