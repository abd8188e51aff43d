//! How the project writes, as tests: words, comments, names, sentences and diagrams. The counts of
//! what is left may only shrink.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{Browser, TestSandbox};

use super::tidy::files;

/// Words of the old dialect. Assembled here, so that this file does not contain them.
fn dialect() -> Vec<String> {
    let one = ["who", "what", "which"].map(|start| format!("{start}ever"));
    let two = ["some", "no"].map(|start| format!("{start}body"));
    let three = ["many", "long"].map(|end| format!("so {end}"));
    let four = ["is none", "that"].join(" ");
    one.into_iter().chain(two).chain(three).chain([four]).collect()
}

/// Fails if there are more places than allowed, and also if there are fewer, so that the allowance
/// is lowered with them.
#[track_caller]
fn allow(allowed: usize, what: &str, places: &[String]) {
    let found = places.len();
    assert!(found <= allowed, "{found} {what}, {allowed} are allowed:\n{}", places.join("\n"));
    assert!(found == allowed, "only {found} {what} are left: lower the allowance from {allowed}");
}

fn is_word_at(text: &str, start: usize, length: usize) -> bool {
    let part = |char: char| char.is_alphanumeric();
    !text[..start].ends_with(part) && !text[start + length..].starts_with(part)
}

/// Returns the lines of files with a word of the dialect, one for each use.
fn places_of_dialect(files: &[(String, String)]) -> Vec<String> {
    let words = dialect();
    let mut found = Vec::new();
    for (name, text) in files {
        for (number, line) in (1..).zip(text.lines()) {
            let lower = line.to_lowercase();
            for word in &words {
                let uses = lower.match_indices(word.as_str());
                let uses = uses.filter(|(start, _)| is_word_at(&lower, *start, word.len()));
                found.extend(uses.map(|_| format!("{name}:{number}: {}", line.trim())));
            }
        }
    }
    found
}

/// Returns the documents. The reference of commands is generated from the help, built-in
/// definitions are prompts, and fixtures are recorded.
fn documents() -> Vec<(String, String)> {
    let others = ["docs/cli.md", "config/src/", "tests/fixtures/0", "CHANGELOG"];
    let is_prompt = |name: &str| name.contains("/tasks/") || name.contains("/.agents/");
    let is_ours = |name: &str| !others.iter().any(|other| name.starts_with(other)) && !is_prompt(name);
    files(&[".md"]).into_iter().filter(|(name, _)| is_ours(name)).collect()
}

#[test]
fn code_has_few_words_of_the_old_dialect() {
    allow(0, "words of the old dialect in code", &places_of_dialect(&files(&[".rs"])));
}

#[test]
fn documents_have_no_words_of_the_old_dialect() {
    allow(0, "words of the old dialect in documents", &places_of_dialect(&documents()));
}

#[test]
fn limits_are_named_max() {
    let old = ["MOST", ""].join("_");
    for (name, text) in files(&[".rs"]) {
        assert!(!text.contains(&old), "{name}: a limit is named MAX_*");
    }
}

/// Returns the identifiers of a line, without those in its comment.
fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|char: char| !char.is_alphanumeric() && char != '_').filter(|word| !word.is_empty())
}

/// Whether an identifier contains the word, in snake case or camel case.
fn contains_word(identifier: &str, word: &str) -> bool {
    let camel = format!("{}{}", word[..1].to_uppercase(), &word[1..]);
    let starts_word = |end: usize| identifier[end..].chars().next().is_none_or(char::is_uppercase);
    identifier.split('_').any(|part| part.eq_ignore_ascii_case(word))
        || identifier.match_indices(&camel).any(|(start, _)| starts_word(start + camel.len()))
}

#[test]
fn identifiers_say_what_was_reported_sent_or_received() {
    // A name in the schema of events.
    let on_the_wire = "schema(as = ";
    let old = ["told", "tell", "tells"];
    let mut found = Vec::new();
    for (name, text) in files(&[".rs"]) {
        for (number, line) in (1..).zip(text.lines()) {
            let outside_strings: String = line.split('"').step_by(2).collect::<Vec<_>>().join(" ");
            let mut words = identifiers(&outside_strings).filter(|_| !line.contains(on_the_wire));
            if let Some(word) = words.find(|word| old.iter().any(|old| contains_word(word, old))) {
                found.push(format!("{name}:{number}: {word}"));
            }
        }
    }
    allow(0, "identifiers of the old dialect", &found);
}

/// Maximum number of lines of the comment that begins a file: its purpose, what it must not do.
const MAX_PURPOSE: usize = 3;

#[test]
fn a_file_begins_with_its_purpose_in_three_lines() {
    let mut long = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let lines = text.lines().filter(|line| line.starts_with("//!")).count();
        if lines > MAX_PURPOSE {
            long.push(format!("{name}: {lines} lines"));
        }
    }
    allow(0, "files that begin with more than three lines about their purpose", &long);
}

#[test]
fn comments_of_items_are_sentences() {
    let mut short = Vec::new();
    for (name, text) in files(&[".rs"]) {
        let mut words: Vec<&str> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(comment) = line.trim_start().strip_prefix("///") {
                words.extend(comment.split_whitespace());
            } else if !words.is_empty() {
                if words.len() < 4 {
                    short.push(format!("{name}:{}: {}", number - 1, words.join(" ")));
                }
                words.clear();
            }
        }
    }
    allow(72, "comments of fewer than four words", &short);
}

/// Returns the name of the type that a line defines. Aliases inside of `impl` belong to a trait, and
/// each crate with an error of its own has an alias `Result`.
fn defined_type(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    let is_inside = rest.len() < line.len();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after.strip_prefix('(').map_or(after, |scoped| scoped.split_once(')').map_or("", |two| two.1));
        rest = rest.trim_start();
    }
    let rest_of_definition =
        ["struct ", "enum ", "trait ", "union "].iter().find_map(|word| rest.strip_prefix(word));
    let rest = rest_of_definition.or_else(|| rest.strip_prefix("type ").filter(|_| !is_inside))?;
    let name = rest.split(|char: char| !char.is_alphanumeric() && char != '_').next()?;
    (name != "Result" && name.starts_with(|char: char| char.is_ascii_uppercase())).then_some(name)
}

#[test]
fn a_type_name_has_one_meaning() {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, text) in files(&[".rs"]) {
        for found in text.lines().filter_map(defined_type) {
            defined.entry(found.to_owned()).or_default().push(name.clone());
        }
    }
    let often = defined.iter().filter(|(_, places)| places.len() > 1);
    let often: Vec<String> = often.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    allow(0, "names of two or more types", &often);
}

/// Returns the prose of a document: paragraphs and items of lists, each on one line, with the
/// number of its first line. Tables, code, headings and links' targets are left out.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    let mut code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            code = !code;
            open = false;
            continue;
        }
        if code || trimmed.is_empty() || trimmed.starts_with(['|', '#', '<']) {
            open = false;
            continue;
        }
        let item = trimmed.starts_with("- ")
            || trimmed.split_once(". ").is_some_and(|(start, _)| start.parse::<u32>().is_ok());
        match found.last_mut().filter(|_| open && !item) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(trimmed);
            }
            None => found.push((number, trimmed.to_owned())),
        }
        open = true;
    }
    found
}

/// Maximum number of words of a sentence in a document.
const MAX_WORDS: usize = 30;

#[test]
fn sentences_of_documents_are_short() {
    let mut long = Vec::new();
    for (name, text) in documents() {
        for (number, paragraph) in prose(&text) {
            for sentence in sentences(&paragraph) {
                let words = without_code(sentence).split_whitespace().count();
                if words > MAX_WORDS {
                    long.push(format!("{name}:{number}: {words} words: {sentence:.80}"));
                }
            }
        }
    }
    allow(0, "sentences of more than 30 words", &long);
}

/// Replaces each piece of code by one word.
fn without_code(sentence: &str) -> String {
    let parts = sentence.split('`').enumerate();
    parts.map(|(number, part)| if number % 2 == 1 { "code" } else { part }).collect()
}

/// Splits a paragraph where a sentence ends: a mark, a blank, and no lower-case letter after it.
fn sentences(paragraph: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (end, _) in paragraph.match_indices([' ']) {
        let ends = paragraph[..end].trim_end_matches([')', '"', '*', '`']).ends_with(['.', '?', '!', ':']);
        let next = paragraph[end + 1..].chars().next();
        if ends && next.is_some_and(|next| !next.is_lowercase()) {
            found.push(&paragraph[start..end]);
            start = end + 1;
        }
    }
    found.push(&paragraph[start..]);
    found
}

/// Maximum width of a line of a document.
const MAX_WIDTH: usize = 100;

#[test]
fn lines_of_documents_are_narrow() {
    let mut wide = Vec::new();
    for (name, text) in documents() {
        let mut code = false;
        for (number, line) in (1..).zip(text.lines()) {
            code ^= line.trim_start().starts_with("```");
            let exempt = code
                || line.trim_start().starts_with(['|', '[', '!', '<'])
                || line.contains("](")
                || name.starts_with("skills/");
            if !exempt && line.chars().count() > MAX_WIDTH {
                wide.push(format!("{name}:{number}"));
            }
        }
    }
    allow(0, "lines of more than 100 columns", &wide);
}

/// Pages that begin with a diagram or have one where it explains more than text.
const WITH_DIAGRAM: &[&str] = &[
    "README.md",
    "docs/README.md",
    "docs/approvals.md",
    "docs/architecture.md",
    "docs/delegation.md",
    "docs/hooks.md",
    "docs/internals/daemon-life.md",
    "docs/internals/journal.md",
    "docs/internals/process-trees.md",
    "docs/reliability.md",
    "docs/sandbox.md",
    "docs/state-machines.md",
    "docs/tutorial.md",
    "docs/worktrees.md",
];

/// Returns the text of each block of Mermaid in a document.
fn diagrams(text: &str) -> Vec<&str> {
    let blocks = text.split("```mermaid\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

#[test]
fn pages_have_their_diagrams_and_the_first_ones_are_short() {
    let documents = documents();
    for page in WITH_DIAGRAM {
        let (_, text) = documents.iter().find(|(name, _)| name == page).unwrap();
        assert!(!diagrams(text).is_empty(), "{page} has no diagram");
    }
    let (_, readme) = documents.iter().find(|(name, _)| name == "README.md").unwrap();
    assert!(readme.lines().count() <= 150, "README.md has more than 150 lines");
    let (_, architecture) = documents.iter().find(|(name, _)| name == "docs/architecture.md").unwrap();
    assert!(architecture.lines().count() <= 250, "docs/architecture.md has more than 250 lines");
    let (before, _) = readme.split_once("$ subagent wait").unwrap();
    let words = before.split_whitespace().count();
    assert!(words <= 300, "README.md: {words} words before the reader's own first result");
}

/// The kinds of pages. Each page begins with its kind, after its title.
const KINDS: &[&str] = &[
    "*Tutorial.*",
    "*How-to.*",
    "*How-to and reference.*",
    "*How-to for contributors.*",
    "*Reference.*",
    "*Explanation.*",
];

#[test]
fn each_page_begins_with_its_kind() {
    for (name, text) in files(&[".md"]) {
        let page = name.starts_with("docs/") && name != "docs/README.md";
        let begin = text.lines().nth(2).unwrap_or_default();
        let known = KINDS.iter().any(|kind| begin.starts_with(kind));
        assert!(!page || known, "{name} begins with {begin:?}, and not with its kind");
    }
}

#[test]
fn every_diagram_renders() {
    let Some(browser) = Browser::find() else { return };
    let mut all = Vec::new();
    for (name, text) in documents() {
        all.extend(diagrams(&text).into_iter().map(|text| json!({"place": name, "text": text})));
    }
    assert!(all.len() >= 12, "only {} diagrams", all.len());
    let sandbox = TestSandbox::new();
    let file = sandbox.file_name("diagrams.json");
    fs::write(&file, serde_json::to_vec(&all).unwrap()).unwrap();
    let drawn = browser.start(&sandbox, "diagrams.mjs", &["render", &file], &[], Duration::from_secs(120));
    let drawn = drawn.output();
    assert!(drawn.status.success(), "{drawn}");
    sandbox.finish();
}
