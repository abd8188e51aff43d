//! The script language of prompts: one directive per line. Pure: it parses text and executes nothing.

use std::path::PathBuf;
use std::time::Duration;

use super::edits::Edit;
use super::shapes::SpawnShape;

/// The amount of `!flood`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    /// This number of updates.
    Count(u64),
    /// The updates that fit into this time.
    Time(Duration),
}

/// One step of a turn. The fields are the words of the script, checked only for their type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Directive {
    Say(String),
    Chunks { count: u64, text: Option<String> },
    Stream(u64),
    Think(String),
    Tool { kind: String, title: String },
    Edit(Edit),
    Plan(Vec<String>),
    Usage { used: u64, size: u64 },
    Tokens(String),
    Ask { kind: String, title: String, requests: u8 },
    Elicit { params: String, file: Option<PathBuf> },
    Raw(String),
    Sleep(Duration),
    WaitFile(PathBuf),
    Touch(PathBuf),
    Crash(i32),
    KillSelf,
    Hang,
    IgnoreCancel(Duration),
    Noise,
    Line(usize),
    Flood { amount: Amount, bytes: usize },
    Error { code: i64, message: String },
    RateLimit(Option<u64>),
    Stop(String),
    Unknown,
    Late(Option<String>),
    Spawn(Vec<SpawnShape>),
    Shell(String),
    Env(String),
    Cwd,
    Options,
    SystemPrompt,
    ExitAfter,
    Stderr(String),
}

/// One line of a script with its number (from 1), or its error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScriptStep {
    pub(super) line: usize,
    pub(super) directive: Result<Directive, String>,
}

/// Parses a prompt into steps. Blank lines are skipped; a line without `!` is text to send.
pub(super) fn parse(text: &str) -> Vec<ScriptStep> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| ScriptStep { line: index + 1, directive: parse_line(line) })
        .collect()
}

fn parse_line(line: &str) -> Result<Directive, String> {
    let Some(rest) = line.strip_prefix('!') else {
        return Ok(Directive::Say(line.to_owned()));
    };
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let rest = rest.trim_end();
    let text = || rest.to_owned();
    let words = Words { name, rest };
    Ok(match name {
        "say" => Directive::Say(text()),
        "chunks" => {
            let (count, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let text = (!text.is_empty()).then(|| text.to_owned());
            Directive::Chunks { count: words.number(count, "N")?, text }
        }
        "stream" => Directive::Stream(words.number(rest, "N")?),
        "think" => Directive::Think(text()),
        "tool" => {
            let (kind, title) = words.pair("KIND TITLE")?;
            Directive::Tool { kind, title }
        }
        "edit" => Directive::Edit(Edit::parse(rest)?),
        "plan" => Directive::Plan(rest.split('|').map(|entry| entry.trim().to_owned()).collect()),
        "usage" => {
            let (used, size) = words.pair("USED SIZE")?;
            Directive::Usage { used: words.number(&used, "USED")?, size: words.number(&size, "SIZE")? }
        }
        "tokens" => Directive::Tokens(words.word("JSON")?),
        "ask" | "ask2" => {
            let (kind, title) = words.pair("KIND TITLE")?;
            Directive::Ask { kind, title, requests: if name == "ask" { 1 } else { 2 } }
        }
        "elicit" => Directive::Elicit { params: text(), file: None },
        "elicit-to" => {
            let (file, params) = words.pair("PATH PARAMS")?;
            Directive::Elicit { params, file: Some(file.into()) }
        }
        "raw" => Directive::Raw(text()),
        "sleep" => Directive::Sleep(Duration::from_millis(words.number(rest, "MILLIS")?)),
        "wait-file" => Directive::WaitFile(words.path()?),
        "touch" => Directive::Touch(words.path()?),
        "crash" if rest.is_empty() => Directive::Crash(1),
        "crash" => Directive::Crash(words.number(rest, "CODE")?),
        "kill-self" => Directive::KillSelf,
        "hang" => Directive::Hang,
        "ignore-cancel" => Directive::IgnoreCancel(Duration::from_millis(words.number(rest, "MILLIS")?)),
        "noise" => Directive::Noise,
        "line" => Directive::Line(words.number(rest, "BYTES")?),
        "flood" => {
            let (amount, bytes) = words.pair("N|SECONDSs BYTES")?;
            let amount = match amount.strip_suffix('s') {
                Some(seconds) => Amount::Time(Duration::from_secs(words.number(seconds, "SECONDSs")?)),
                None => Amount::Count(words.number(&amount, "N")?),
            };
            Directive::Flood { amount, bytes: words.number(&bytes, "BYTES")? }
        }
        "error" => {
            let (code, message) = words.pair("CODE MESSAGE")?;
            Directive::Error { code: words.number(&code, "CODE")?, message }
        }
        "rate-limit" if rest.is_empty() => Directive::RateLimit(None),
        "rate-limit" => Directive::RateLimit(Some(words.number(rest, "MILLIS")?)),
        "stop" => Directive::Stop(words.word("REASON")?),
        "unknown" => Directive::Unknown,
        "late" => Directive::Late((!rest.is_empty()).then(text)),
        "spawn" if rest == "all" => Directive::Spawn(SpawnShape::ALL.to_vec()),
        "spawn" => Directive::Spawn(vec![rest.parse().map_err(|error| format!("!spawn: {error}"))?]),
        "shell" => Directive::Shell(words.word("COMMAND")?),
        "env" => Directive::Env(words.word("NAME")?),
        "cwd" => Directive::Cwd,
        "options" => Directive::Options,
        "system-prompt" => Directive::SystemPrompt,
        "exit-after" => Directive::ExitAfter,
        "stderr" => Directive::Stderr(text()),
        _ => return Err(format!("unknown directive !{name}")),
    })
}

/// The words after a directive's name. Errors contain that name.
struct Words<'a> {
    name: &'a str,
    rest: &'a str,
}

impl Words<'_> {
    fn needs<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("!{} needs {what}", self.name))
    }

    fn word(&self, what: &str) -> Result<String, String> {
        if self.rest.is_empty() { self.needs(what) } else { Ok(self.rest.to_owned()) }
    }

    fn path(&self) -> Result<PathBuf, String> {
        self.word("PATH").map(PathBuf::from)
    }

    fn pair(&self, what: &str) -> Result<(String, String), String> {
        match self.rest.split_once(' ') {
            Some((first, second)) if !second.trim().is_empty() => {
                Ok((first.to_owned(), second.trim_start().to_owned()))
            }
            _ => self.needs(what),
        }
    }

    fn number<T: std::str::FromStr>(&self, text: &str, what: &str) -> Result<T, String> {
        text.parse().or_else(|_| self.needs(&format!("a number as {what}, not \"{text}\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<Directive, String> {
        let mut steps = parse(line);
        assert_eq!(steps.len(), 1);
        steps.remove(0).directive
    }

    #[test]
    fn plain_lines_are_said_and_blank_ones_skipped_but_counted() {
        let steps = parse("hello\n\n  \n!late\n");
        assert_eq!(steps.len(), 2);
        assert_eq!(steps[0], ScriptStep { line: 1, directive: Ok(Directive::Say("hello".into())) });
        assert_eq!(steps[1], ScriptStep { line: 4, directive: Ok(Directive::Late(None)) });
    }

    #[test]
    fn arguments_are_typed() {
        assert_eq!(one("!chunks 3").unwrap(), Directive::Chunks { count: 3, text: None });
        assert_eq!(one("!chunks 3 a b").unwrap(), Directive::Chunks { count: 3, text: Some("a b".into()) });
        assert_eq!(
            one("!ask2 execute rm -rf x").unwrap(),
            Directive::Ask { kind: "execute".into(), title: "rm -rf x".into(), requests: 2 }
        );
        assert_eq!(
            one("!flood 2s 100").unwrap(),
            Directive::Flood { amount: Amount::Time(Duration::from_secs(2)), bytes: 100 }
        );
        assert_eq!(one("!flood 2 100").unwrap(), Directive::Flood { amount: Amount::Count(2), bytes: 100 });
        assert_eq!(one("!crash").unwrap(), Directive::Crash(1));
        assert_eq!(one("!rate-limit").unwrap(), Directive::RateLimit(None));
        assert_eq!(one("!rate-limit 50").unwrap(), Directive::RateLimit(Some(50)));
        assert_eq!(one("!plan a | b").unwrap(), Directive::Plan(vec!["a".into(), "b".into()]));
        assert_eq!(one("!spawn all").unwrap(), Directive::Spawn(SpawnShape::ALL.to_vec()));
    }

    #[test]
    fn errors_name_the_directive_and_what_it_wants() {
        assert_eq!(one("!dance").unwrap_err(), "unknown directive !dance");
        assert_eq!(one("!tool read").unwrap_err(), "!tool needs KIND TITLE");
        assert_eq!(one("!sleep soon").unwrap_err(), "!sleep needs a number as MILLIS, not \"soon\"");
        assert_eq!(one("!touch").unwrap_err(), "!touch needs PATH");
        assert!(one("!spawn bomb").unwrap_err().starts_with("!spawn: unknown shape bomb"));
    }
}
