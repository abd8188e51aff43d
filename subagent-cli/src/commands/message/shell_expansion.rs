//! What a shell may have changed in `--text` before this command saw it: the warning `TEXT_SHELL_PITFALL`. Pure.

use serde_json::{Value, json};

/// The characters that mean something to a shell, with the word for each, in the order in which they are reported.
const RISKS: &[(&str, &str)] = &[
    ("`", "backticks"),
    ("$(", "commandSubstitution"),
    ("${", "parameterExpansion"),
    ("|", "pipeline"),
    (";", "commandSeparator"),
    ("&&", "andOperator"),
    ("||", "orOperator"),
    (">", "redirectOut"),
    ("<", "redirectIn"),
];

const CODE: &str = "TEXT_SHELL_PITFALL";
const MESSAGE: &str = "--text holds characters that a shell may have changed before this command saw them; \
    use --text-file, --text-stdin or --input for such text";

/// The same of a text that is an argument.
const OF_ARGUMENT: &str = "the text holds characters that a shell may have changed before this command saw them, \
    unless it stood in single quotes; --text-file FILE and a pipe are safe";

/// The words for what is risky in a text.
pub(crate) fn codes(text: &str) -> Vec<&'static str> {
    RISKS.iter().filter(|(sign, _)| text.contains(sign)).map(|(_, code)| *code).collect()
}

/// The warning in `data.warnings`.
pub(crate) fn warning(codes: &[&str]) -> Value {
    json!({"code": CODE, "message": MESSAGE, "riskCodes": codes})
}

/// The warning on stderr.
pub(crate) fn lines(codes: &[&str], is_argument: bool) -> String {
    let message = if is_argument { OF_ARGUMENT } else { MESSAGE };
    format!("Warning: {message}\nRisk codes: {}", codes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risks_come_in_their_order() {
        for (text, expected) in [
            ("plain text, no 'risk' $HOME & so on", vec![]),
            ("`ls`", vec!["backticks"]),
            ("$(ls) ${HOME}", vec!["commandSubstitution", "parameterExpansion"]),
            ("a | b", vec!["pipeline"]),
            ("a || b && c; d", vec!["pipeline", "commandSeparator", "andOperator", "orOperator"]),
            ("<a >b", vec!["redirectOut", "redirectIn"]),
        ] {
            assert_eq!(codes(text), expected, "{text}");
        }
    }

    #[test]
    fn the_warning_names_its_codes() {
        let found = codes("`x`");
        assert_eq!(warning(&found)["riskCodes"], json!(["backticks"]));
        assert!(lines(&found, false).ends_with("\nRisk codes: backticks"));
        assert!(
            lines(&found, false).contains("--text holds") && !lines(&found, true).contains("--text holds")
        );
    }
}
