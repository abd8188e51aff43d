//! Detects numeric words. Pure. zsh and bash evaluate numeric operands as expressions: a bare name
//! is a variable whose value is evaluated again, and an array index can run a command. So only
//! literal numbers are accepted there.

use super::text::ShellText;

/// Parameters that are always numbers.
pub(super) const PARAMETERS: &[&str] = &["$?", "$#", "$!", "$$"];

/// Returns whether every shell reads the word as a number: decimal digits with a sign or a fraction, or a
/// parameter that is always a number.
pub(super) fn is_plain(word: &ShellText) -> bool {
    match word.known() {
        Some(text) => is_decimal(text),
        None => PARAMETERS.contains(&word.shown.as_str()),
    }
}

pub(super) fn is_decimal(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(unsigned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_and_parameters_are_numbers() {
        for number in ["0", "12", "-1", "+1", "1.5", "-0.25"] {
            assert!(is_plain(&ShellText::literal(number)), "{number}");
        }
        for other in
            ["", "-", "+", "x", "-x", "1+x", "x+1", "1.", ".5", "1x", "0x1f", "1e5", "--1", "$?", "a[1]"]
        {
            assert!(!is_plain(&ShellText::literal(other)), "{other}");
        }
        assert!(is_plain(&ShellText::open("$?")));
        assert!(!is_plain(&ShellText::open("$x")));
    }
}
