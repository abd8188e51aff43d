//! Patterns in which `*` matches any text. Pure; time is bounded by pattern length times text length.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchResult {
    /// It matches for no value of the open parts.
    No,
    /// It may match, because a part of the text is unknown.
    Could,
    /// It matches the text as written.
    Yes,
}

/// One character of a text, or a part that is known only at run time (a variable, a glob).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GlobUnit {
    /// A known character of the text.
    Char(char),
    /// An unknown part of any length.
    Open,
}

/// Limit on pattern length times number of units; longer inputs count as a match.
const MAX_STEPS: usize = 4_000_000;

/// Whether the pattern matches the whole text. `*` also matches slashes, leading dots and line ends. A
/// final ` *` is optional: `git push *` also matches `git push`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    if pattern.strip_suffix(" *").is_some_and(|bare| !bare.is_empty() && whole(bare, text)) {
        return true;
    }
    whole(pattern, text)
}

/// Greedy match with backtracking to the last star: at most pattern times text steps.
fn whole(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(char) if *char == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((after, taken)) => {
                    *taken += 1;
                    (p, t) = (*after, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|char| *char == '*')
}

/// Whether the pattern matches a text that these units can become.
pub(super) fn could_match(pattern: &str, units: &[GlobUnit]) -> bool {
    let bare = pattern.strip_suffix(" *").filter(|bare| !bare.is_empty());
    bare.is_some_and(|bare| meets(bare, units)) || meets(pattern, units)
}

/// Whether pattern and units have a common text. In each row, `row[i]` says whether the first `i`
/// units can be consumed.
fn meets(pattern: &str, units: &[GlobUnit]) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    if pattern.len().saturating_mul(units.len()) > MAX_STEPS {
        return true;
    }
    let mut row = vec![false; units.len() + 1];
    row[0] = true;
    spread(&mut row, units);
    for char in pattern {
        let mut next = vec![false; units.len() + 1];
        if char == '*' {
            let mut any = false;
            for (at, reached) in row.iter().enumerate() {
                any |= *reached;
                next[at] = any;
            }
        } else {
            for at in 0..units.len() {
                match units[at] {
                    GlobUnit::Char(unit) => next[at + 1] |= row[at] && unit == char,
                    // The part may contain this character and continue, or end with it.
                    GlobUnit::Open => {
                        next[at] |= row[at];
                        next[at + 1] |= row[at] || row[at + 1];
                    }
                }
            }
            spread(&mut next, units);
        }
        row = next;
    }
    row[units.len()]
}

/// An open part may be empty.
fn spread(row: &mut [bool], units: &[GlobUnit]) {
    for at in 0..units.len() {
        if units[at] == GlobUnit::Open && row[at] {
            row[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn units(text: &str) -> Vec<GlobUnit> {
        text.chars().map(|char| if char == '?' { GlobUnit::Open } else { GlobUnit::Char(char) }).collect()
    }

    #[test]
    fn a_star_is_any_text() {
        let table = [
            ("*", "", true),
            ("*", ".a/b", true),
            ("*.env", ".env", true),
            ("*.env", "a/b/.env", true),
            ("*.env", "a.envx", false),
            ("src/**", "src/a/b", true),
            ("src/**", "src", false),
            ("git push*", "git push -f", true),
            ("git push*", "git pushed", true),
            ("git push *", "git push", true),
            ("git push *", "git push -f", true),
            ("git push *", "git pushed", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ä*", "äö", true),
            ("a?c", "abc", false),
            ("[a]", "a", false),
            (" *", "", false),
        ];
        for (pattern, text, fits) in table {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn an_open_part_may_become_what_the_pattern_wants() {
        let table = [
            ("git push*", "git ?", true),
            ("git push *", "git ?", true),
            ("git push*", "git status ?", false),
            ("git push*", "? push", true),
            ("*push*", "git ?", true),
            ("rm -rf /", "rm ? /", true),
            ("rm -rf /", "rm ?", true),
            ("rm -rf /", "rm ? /tmp", false),
            ("ab", "a?b", true),
            ("", "?", true),
        ];
        for (pattern, text, fits) in table {
            assert_eq!(could_match(pattern, &units(text)), fits, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn what_fits_as_it_is_written_could_fit(pattern in "[ab* ]{0,8}", text in "[ab ]{0,8}") {
            prop_assert_eq!(matches(&pattern, &text), could_match(&pattern, &units(&text)));
        }

        #[test]
        fn what_fits_one_way_of_filling_in_could_fit(
            pattern in "[ab*]{0,6}", head in "[ab]{0,3}", middle in "[ab]{0,3}", tail in "[ab]{0,3}",
        ) {
            if matches(&pattern, &format!("{head}{middle}{tail}")) {
                let open = units(&format!("{head}?{tail}"));
                prop_assert!(could_match(&pattern, &open));
            }
        }
    }

    #[test]
    fn hostile_patterns_take_no_time() {
        let pattern = "a*".repeat(400);
        assert!(!matches(&format!("{pattern}b"), &"a".repeat(16_000)));
        assert!(could_match(&pattern, &units(&"a?".repeat(8_000))));
    }
}
