//! Searches arguments, quoted texts and here-documents for denied commands. Pure. Many programs
//! start others from their arguments, and no list of them is complete. So every occurrence of a
//! denied command's name counts.

/// Maximum number of occurrences per line; more need an approval.
pub(in super::super) const MAX_PLACES: usize = 64;

/// Maximum number of offsets per word where a name may begin; more need an approval.
const MAX_STARTS: usize = 256;
/// Maximum number of brace lists per word and size of their expansion in bytes; more need an approval.
const MAX_LISTS: usize = 8;
const MAX_EXPANDED: usize = 64 * 1024;

/// Returns the texts after each occurrence of these names: up to the end of the text, up to the end of the
/// command, and with blanks for the list separators of other languages. `None` if there are too many.
pub(in super::super) fn behind_names(text: &str, is_name: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut places = 0;
    for text in readings(text)? {
        let mut at = 0;
        for word in text.split_inclusive(|char: char| !is_of_a_name(char)) {
            let name = word.trim_end_matches(|char| !is_of_a_name(char));
            for start in starts(name)?.into_iter().filter(|start| is_name(&name[*start..])) {
                places += 1;
                if places > MAX_PLACES {
                    return None;
                }
                let rest = &text[at + start..];
                let command =
                    rest.split([';', '|', '&', '\n', ')', '}', '`']).next().unwrap_or_default().trim_end();
                let list = rest.split([';', '|', '&', '\n', ')', '`']).next().unwrap_or_default();
                for place in [rest.trim_end().replace('\n', " "), command.to_owned(), spread(list)] {
                    if !found.contains(&place) {
                        found.push(place);
                    }
                }
            }
            at += word.len();
        }
    }
    Some(found)
}

fn is_of_a_name(char: char) -> bool {
    char.is_alphanumeric() || "_-.+".contains(char)
}

/// Returns the offsets where a name may begin in a word: its start, and after short options. `None` if
/// there are too many.
fn starts(word: &str) -> Option<Vec<usize>> {
    if word.is_empty() {
        return Some(Vec::new());
    }
    if !word.starts_with('-') || word.starts_with("--") {
        return Some(vec![0]);
    }
    let starts: Vec<usize> = word.char_indices().map(|(at, _)| at).filter(|at| *at != 1).collect();
    (starts.len() <= MAX_STARTS).then_some(starts)
}

/// Returns the readings of a text: without quotes, and with a blank for each quote. `None` if they are too
/// long.
fn readings(text: &str) -> Option<Vec<String>> {
    let text = with_braces(&with_defaults(text))?;
    let mut found = vec![plain(&text, None)];
    let parted = plain(&text, Some(' '));
    if parted != found[0] {
        found.push(parted);
    }
    Some(found)
}

/// Removes or replaces quotes and collapses blanks.
fn plain(text: &str, for_quotes: Option<char>) -> String {
    let mut plain = String::with_capacity(text.len());
    let chars = text.chars().filter_map(|char| match char {
        '\'' | '"' => for_quotes,
        '\\' => None,
        char => Some(char),
    });
    for char in chars {
        match char {
            ' ' | '\t' if plain.ends_with(' ') => {}
            '\t' => plain.push(' '),
            char => plain.push(char),
        }
    }
    plain
}

/// Joins the words of a list with spaces: `rm, -rf]` becomes `rm -rf`.
fn spread(text: &str) -> String {
    let parts = text.split(|char: char| char.is_whitespace() || ",[]{}:<>$(=\"'".contains(char));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Replaces each expansion by its default value, and `$IFS` by blanks.
fn with_defaults(text: &str) -> String {
    let text = text.replace("${IFS}", " ").replace("$IFS", " ");
    let mut parts = text.split("${");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let operation = part.trim_start_matches(|char: char| char.is_ascii_alphanumeric() || char == '_');
        let default = operation.trim_start_matches([':', '-', '+', '=', '?', '/']);
        match (default.len() < operation.len(), default.split_once('}')) {
            (true, Some((default, rest))) => found.extend([default, rest]),
            _ => found.extend(["${", part]),
        }
    }
    found
}

/// Appends the expansions of brace lists: `b{a,x}d` gives `bad bxd`. `None` if they are too long.
fn with_braces(text: &str) -> Option<String> {
    let mut all = text.to_owned();
    let mut last = text.to_owned();
    for _ in 0..MAX_LISTS {
        let mut next = String::new();
        for word in last.split_whitespace() {
            let (before, rest) = word.split_once('{').unwrap_or((word, ""));
            let Some((list, after)) = rest.split_once('}').filter(|(list, _)| list.contains(',')) else {
                continue;
            };
            for part in list.split(',') {
                next.extend([before, part, after, " "]);
                if next.len() > MAX_EXPANDED {
                    return None;
                }
            }
        }
        if next.is_empty() {
            return Some(all);
        }
        all.extend(["\n", &next]);
        last = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_wherever_a_word_begins() {
        let rm = |text: &str| behind_names(text, |name| name == "rm").unwrap();
        for text in [
            "x /bin/rm y",
            "x 'rm y'",
            "x=rm y",
            "x \"r''m\" y",
            "x\trm y",
            "a;rm y",
            "x r\\m   y",
            "--x=/a/rm y",
        ] {
            assert_eq!(rm(text).first().map(String::as_str), Some("rm y"), "{text}");
        }
        for text in
            ["-crm y", "-qc'rm y'", "-x/bin/rm y", "${X:-rm} y", "{rm,y}", "b{x,}:rm y", "['rm', 'y']"]
        {
            assert!(rm(text).iter().any(|place| place == "rm y"), "{text}: {:?}", rm(text));
        }
        for text in ["sh -c 'a `rm` x'", "sh -c 'a $(rm) x'", "p -e 'print `rm`'"] {
            assert!(rm(text).iter().any(|place| place == "rm"), "{text}: {:?}", rm(text));
        }
        for text in ["rm,y", "rm$IFS-f", "rm<x", "rm:x", "\"rm\"x", "r{m,x} y", "{r,x}{m,y} z"] {
            assert!(rm(text).iter().any(|place| place.starts_with("rm ")), "{text}: {:?}", rm(text));
        }
        for text in ["--rm y", "rm.txt", "farm y", "x-rm", "_rm"] {
            assert!(rm(text).is_empty(), "{text}");
        }
        assert_eq!(rm("x 'rm y; z'"), ["rm y; z", "rm y"]);
        assert!(behind_names(&format!("{}a{}", "{a,b}".repeat(20), "x"), |name| name == "rm").is_none());
        assert!(behind_names(&"rm ".repeat(MAX_PLACES + 1), |name| name == "rm").is_none());
    }
}
