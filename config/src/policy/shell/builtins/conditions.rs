//! The conditions `[`, `test` and `[[`. Pure. `[[` evaluates numeric operands as expressions. `[`
//! of dash, bash and zsh takes integers, but zsh evaluates the operand of `-t`. Operators can be
//! recognized only if the number of words is known.

use super::super::numbers;
use super::super::text::ShellText;

const COMPARES_NUMBERS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Returns whether a condition may start a command.
pub(super) fn is_risky(name: &str, words: &[ShellText]) -> bool {
    let mut operands: Vec<&ShellText> = words.iter().collect();
    let closed = operands.pop_if(|last| last.shown == "]" || last.shown == "]]").is_some();
    // The grammar reads the text behind `&&` in `[[` as a separate command.
    if name == "[[" && !closed {
        return true;
    }
    let length = operands.len();
    operands.retain(|word| word.shown != "!");
    let negated = operands.len() < length;
    // An array index is an expression, and these operators take a variable by name.
    if operands
        .iter()
        .any(|word| matches!(word.shown.as_str(), "-v" | "-R") || word.known_part().contains('['))
    {
        return true;
    }
    let compares = |word: &ShellText| word.known().is_some_and(|word| COMPARES_NUMBERS.contains(&word));
    if operands.iter().any(|word| word.shown == "-t" || compares(word)) {
        return match operands.as_slice() {
            [operator, number] if operator.shown == "-t" => !numbers::is_plain(number),
            [left, operator, right] if compares(operator) => {
                // A bare name is not a number; some shells evaluate it.
                let is_integer = |word: &ShellText| {
                    numbers::is_plain(word) || (name != "[[" && !negated && word.is_open() && !word.splits)
                };
                !is_integer(left) || !is_integer(right)
            }
            _ => true,
        };
    }
    has_open_operator(&operands)
        || (name != "[[" && operands.iter().any(|word| word.splits && !numbers::is_plain(word)))
}

/// Returns whether the operator is known only at run time.
fn has_open_operator(operands: &[&ShellText]) -> bool {
    match operands {
        [] | [_] => false,
        [operator, _] | [_, operator, _] => operator.is_open(),
        more => more.iter().any(|word| word.is_open()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_only_where_no_shell_evaluates_them() {
        let quoted = |text: &str| ShellText { splits: false, ..ShellText::open(text) };
        let text = |word: &&str| match word.strip_prefix('"') {
            Some(inner) => quoted(inner),
            None if word.starts_with('$') => ShellText::open(word),
            None => ShellText::literal(word),
        };
        let table: &[(&str, &[&str], bool)] = &[
            ("[", &["\"$x", "-gt", "3", "]"], false),
            ("[", &["$#", "-eq", "1", "]"], false),
            ("[", &["!", "-t", "1", "]"], false),
            ("test", &["$?", "-ne", "0"], false),
            ("[[", &["$?", "-ne", "0", "]]"], false),
            ("[[", &["\"$x", "==", "a", "]]"], false),
            ("[", &["$x", "-gt", "3", "]"], true),
            ("[", &["x", "-gt", "3", "]"], true),
            ("[", &["!", "\"$x", "-gt", "3", "]"], true),
            ("[", &["-t", "x", "]"], true),
            ("[", &["-t", "\"$x", "]"], true),
            ("[", &["-n", "a", "-a", "-t", "x", "]"], true),
            ("[", &["-v", "x", "]"], true),
            ("[[", &["\"$x", "-gt", "3", "]]"], true),
            ("[[", &["1", "-eq", "-x", "]]"], true),
            ("[[", &["1", "-eq", "-eq", "]]"], true),
            ("[[", &["-t", "x", "]]"], true),
            ("[[", &["-n", "a"], true),
        ];
        for (name, words, expected) in table {
            let words: Vec<ShellText> = words.iter().map(text).collect();
            assert_eq!(is_risky(name, &words), *expected, "{name} {words:?}");
        }
    }
}
