//! Runs a prompt: the steps of its script in order, then the response. A cancel takes effect before
//! each step and inside of every wait and flood. An [`EarlyEnd`] ends a turn early; only [`run`]
//! responds to the prompt.

use std::io;
use std::process::ExitCode;

use serde_json::json;
use subagent_protocol::json::extend;

use super::agent::{AfterTurn, DemoAgent, ReceivedPrompt};
use super::script::{self, Directive, ScriptStep};
use super::turn::{CancelReaction, DemoTurn, EarlyEnd, Late};
use super::wire::RpcError;
use super::{commands, elicitations, floods, permissions, updates};

/// Runs the prompt to its end and responds.
pub(super) fn run(agent: &mut DemoAgent, prompt: ReceivedPrompt) -> io::Result<AfterTurn> {
    let ReceivedPrompt { id, session, text } = prompt;
    if let Err(error) = agent.sessions.append(&session, vec![updates::user_message(&text)]) {
        let error = RpcError::internal(format!("the prompt cannot be stored: {error}"));
        return agent.out.error(Some(&id), &error).map(|()| AfterTurn::Continue);
    }
    let mut turn = DemoTurn {
        agent,
        session,
        open_tools: Vec::new(),
        hearing: CancelReaction::Listening,
        cancel_seen: false,
        history: Vec::new(),
        said: String::new(),
        late: None,
        exit_after: false,
        usage: None,
    };
    let end = steps(&mut turn, script::parse(&text));
    turn.finish_message();
    let DemoTurn { agent, session, mut history, open_tools, late, exit_after, usage, .. } = turn;
    for tool in open_tools {
        let update = updates::tool_call_end(&tool, "failed", "the turn ended");
        history.push(update.clone());
        // A disconnected client reads no messages.
        if !matches!(end, Err(EarlyEnd::Exit(_) | EarlyEnd::Output(_))) {
            agent.out.update(&session, update)?;
        }
    }
    // The session may be closed by now; if the history cannot be stored, the prompt fails.
    let end = match agent.sessions.append(&session, history) {
        Ok(()) => end,
        Err(error) => Err(EarlyEnd::Error(RpcError::internal(format!("the turn cannot be stored: {error}")))),
    };
    let reason = match end {
        Ok(()) => Ok("end_turn".to_owned()),
        Err(EarlyEnd::Cancelled) => Ok("cancelled".to_owned()),
        Err(EarlyEnd::Reason(reason)) => Ok(reason),
        Err(EarlyEnd::Error(error)) => Err(error),
        Err(EarlyEnd::Exit(code)) => return agent.out.flush().map(|()| AfterTurn::Exit(code)),
        Err(EarlyEnd::Output(error)) => return Err(error),
    };
    match reason {
        Ok(reason) => {
            let mut result = json!({"stopReason": reason});
            if let Some(usage) = usage {
                extend(&mut result, [("usage", usage)]);
            }
            agent.out.result(&id, &result)?;
        }
        Err(error) => agent.out.error(Some(&id), &error)?,
    }
    agent.out.flush()?;
    match late {
        Some(Late::Chunk) => agent.out.update(&session, updates::message("late update"))?,
        Some(Late::Line(line)) => agent.out.raw((line.replace("SESSION", &session) + "\n").as_bytes())?,
        None => {}
    }
    agent.out.flush()?;
    Ok(if exit_after { AfterTurn::Exit(ExitCode::SUCCESS) } else { AfterTurn::Continue })
}

fn steps(turn: &mut DemoTurn<'_>, steps: Vec<ScriptStep>) -> Result<(), EarlyEnd> {
    for ScriptStep { line, directive } in steps {
        // No poll before a step that ignores cancels: a cancel that reacts to the previous step must
        // not take effect.
        if !matches!(directive, Ok(Directive::Hang | Directive::IgnoreCancel(_))) {
            turn.poll()?;
        }
        let problem = match directive {
            Ok(directive) => step(turn, directive)?,
            Err(problem) => Some(problem),
        };
        if let Some(problem) = problem {
            turn.say(&format!("demo-agent: line {line}: {problem}"))?;
        }
        turn.agent.out.flush()?;
    }
    turn.poll()
}

/// Executes one step. A failed step returns its error text, and the turn continues.
fn step(turn: &mut DemoTurn<'_>, directive: Directive) -> Result<Option<String>, EarlyEnd> {
    match directive {
        Directive::Say(text) => turn.say(&text)?,
        Directive::Chunks { count, text } => floods::chunks(turn, count, text.as_deref())?,
        Directive::Stream(count) => floods::stream(turn, count)?,
        Directive::Think(text) => turn.record(updates::thought(&text))?,
        Directive::Tool { kind, title } => turn.tool(&kind, &title)?,
        Directive::Edit(edit) => return turn.edit(&edit),
        Directive::Plan(entries) => turn.record(updates::plan(&entries))?,
        Directive::Usage { used, size } => turn.update(updates::usage(used, size))?,
        Directive::Tokens(json) => match serde_json::from_str(&json) {
            Ok(usage) => turn.usage = Some(usage),
            Err(error) => return Ok(Some(format!("!tokens: {error}"))),
        },
        Directive::Ask { kind, title, requests } => permissions::ask(turn, &kind, &title, requests)?,
        Directive::Elicit { params, file } => {
            return elicitations::elicit(turn, &params, file.as_deref());
        }
        Directive::Raw(line) => elicitations::raw(turn, &line)?,
        Directive::Sleep(time) => turn.sleep(time)?,
        Directive::WaitFile(path) => return turn.wait_file(&path),
        Directive::Touch(path) => return Ok(commands::touch(&path)),
        Directive::Crash(code) => {
            turn.agent.out.flush()?;
            std::process::exit(code);
        }
        Directive::KillSelf => {
            turn.agent.out.flush()?;
            return Ok(commands::kill_self());
        }
        Directive::Hang => turn.hang()?,
        Directive::IgnoreCancel(time) => {
            turn.hearing = CancelReaction::Postponing;
            turn.sleep(time)?;
            turn.hearing = CancelReaction::Listening;
        }
        Directive::Noise => floods::noise(turn)?,
        Directive::Line(bytes) => return floods::line(turn, bytes),
        Directive::Flood { amount, bytes } => floods::flood(turn, amount, bytes)?,
        Directive::Error { code, message } => return Err(EarlyEnd::Error(RpcError::new(code, message))),
        Directive::RateLimit(retry_after_ms) => {
            return Err(EarlyEnd::Error(RpcError::limited(retry_after_ms)));
        }
        Directive::Stop(reason) => return Err(EarlyEnd::Reason(reason)),
        Directive::Unknown => turn.unknown()?,
        Directive::Late(line) => turn.late = Some(line.map_or(Late::Chunk, Late::Line)),
        Directive::Spawn(shapes) => return turn.spawn(&shapes),
        Directive::Shell(command) => return turn.shell(&command),
        Directive::Env(name) => {
            let value = std::env::var_os(name);
            turn.say(&value.map_or("unset".into(), |value| value.to_string_lossy().into_owned()))?;
        }
        Directive::Cwd => match std::env::current_dir() {
            Ok(path) => turn.say(&path.to_string_lossy())?,
            Err(error) => return Ok(Some(format!("!cwd: {error}"))),
        },
        Directive::Options => {
            let words = turn.agent.choices.words(&turn.session);
            turn.say(&words)?;
        }
        Directive::SystemPrompt => {
            let text = turn.agent.choices.system_prompt(&turn.session);
            turn.say(&text)?;
        }
        Directive::ExitAfter => turn.exit_after = true,
        Directive::Stderr(text) => return Ok(commands::stderr(&text)),
    }
    Ok(None)
}
