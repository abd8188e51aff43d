//! An agent that replays the output of a real one: `replay-agent TRANSCRIPT STATE`.

// A transcript has one line per message, `> ` to the agent and `< ` from it. Each process plays
// one part, from one `initialize` to the next. `STATE.part` counts the parts, and `STATE.said`
// gets every written line. The agent's output is replayed byte for byte, except that responses get
// the id of the present request. It waits only for the requests in the transcript. A further
// request whose method is missing there is answered with `-32601`.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program of the tests: stdout is its wire")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, StdinLock, Write as _};

use serde_json::value::RawValue;

/// Requests that a client may omit without changing the agent's later output.
const LEFT_OUT: [&str; 3] = ["session/list", "session/close", "session/delete"];

type Message = BTreeMap<String, Box<RawValue>>;

struct Replay {
    input: StdinLock<'static>,
    said: File,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (transcript, state) = (args.next().expect("a transcript"), args.next().expect("a state"));
    let part = count(&format!("{state}.part"));
    let said = OpenOptions::new().create(true).append(true).open(format!("{state}.said")).expect("a file");
    let transcript = std::fs::read_to_string(transcript).expect("a transcript");
    let mut replay = Replay { input: std::io::stdin().lock(), said };
    let unanswered = replay.play(lines_of_part(&transcript, part));
    // The real agent never answered this prompt. This process ends, so that the test can continue.
    if !unanswered {
        while replay.request(&[]).is_some() {}
    }
}

/// Returns the number of processes before this one.
fn count(file: &str) -> usize {
    let before = std::fs::read_to_string(file).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    std::fs::write(file, (before + 1).to_string()).expect("a file");
    before
}

fn lines_of_part(transcript: &str, part: usize) -> Vec<(char, &str)> {
    let mut begun = 0;
    let lines = transcript.lines().filter_map(|line| Some((line.chars().next()?, line.get(2..)?)));
    let numbered = lines.map(|(from, line)| {
        begun += usize::from(from == '>' && word(&parse(line), "method") == "initialize");
        (begun, from, line)
    });
    numbered.filter(|(of, ..)| *of == part + 1).map(|(_, from, line)| (from, line)).collect()
}

impl Replay {
    /// Returns whether a request was left unanswered.
    fn play(&mut self, lines: Vec<(char, &str)>) -> bool {
        // Maps ids of the transcript to those used here; `None` for a request that this
        // client does not send.
        let mut ids: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut answered = BTreeSet::new();
        for (from, line) in lines {
            let message = parse(line);
            let id = message.get("id").map(|id| id.get().to_owned());
            let method = word(&message, "method");
            match (from, id) {
                ('>', Some(id)) if !method.is_empty() => {
                    let left_out = LEFT_OUT.contains(&method.as_str());
                    let here = if left_out { None } else { self.request(&[&method]) };
                    if here.is_none() && !left_out {
                        return false;
                    }
                    ids.insert(id, here);
                }
                ('<', Some(id)) if method.is_empty() => {
                    if let Some(Some(here)) = ids.get(&id) {
                        let (name, value) = ["result", "error"]
                            .into_iter()
                            .find_map(|name| Some((name, message.get(name)?)))
                            .expect("an answer");
                        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{here},"{name}":{}}}"#, value.get()));
                    }
                    answered.insert(id);
                }
                ('<', _) => self.say(line),
                _ => {}
            }
        }
        ids.iter().any(|(id, here)| here.is_some() && !answered.contains(id))
    }

    fn say(&mut self, line: &str) {
        writeln!(self.said, "{line}").expect("a file");
        let mut output = std::io::stdout().lock();
        let written = writeln!(output, "{line}").and_then(|()| output.flush());
        if written.is_err() {
            std::process::exit(0);
        }
    }

    /// Returns the id of the next request with one of these methods; `None` at the
    /// end of the input.
    fn request(&mut self, methods: &[&str]) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let message = parse(&line);
            let (Some(id), method) = (message.get("id"), word(&message, "method")) else { continue };
            if methods.contains(&method.as_str()) {
                return Some(id.get().to_owned());
            }
            if !method.is_empty() {
                let error = r#"{"code":-32601,"message":"not in the transcript"}"#;
                println!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.get());
            }
        }
    }
}

fn parse(line: &str) -> Message {
    serde_json::from_str(line).unwrap_or_default()
}

fn word(message: &Message, name: &str) -> String {
    message.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}
