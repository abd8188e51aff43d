//! `hook test`: what the hooks of an event say. No daemon runs them, and nothing is decided.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Map, Value, json};
use subagent_config::hooks::event_named;
use subagent_config::hooks::run::command;
use subagent_config::workspace;
use subagent_protocol::Code;
use subagent_protocol::command_run::{CommandEnd, CommandResult, CommandRun};
use subagent_protocol::hook::{Hook, HookEvent};
use subagent_protocol::hook_answer::{HookAnswer, HookWord};
use subagent_protocol::hook_input::HookInput;
use subagent_protocol::hook_matcher::Matcher;
use subagent_protocol::ids::{EventId, WorkerId};

use super::untrusted::{self, Trusted};
use super::{DefinitionFilter, of_place};
use crate::client::{DaemonClient, block_on};
use crate::command_line::flags::{ConfigFlag, CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::sibling_executable::sibling_executable;

/// Run the hooks of an event with a sample, and show what each says
///
/// The hooks are those that a worker has that is started here now. Hooks that are not trusted are shown and do not run. No
/// worker is started and nothing is decided.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent hook test PreToolUse --tool Bash --input '{\"command\": \"rm -rf build\"}'
  subagent hook test Stop --agent reviewer --json")]
pub(crate) struct HookTestArgs {
    /// The event: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, ApprovalRequested, SubagentStart, SubagentStop,
    /// Stop or Notification
    #[arg(value_name = "EVENT")]
    pub(crate) event: String,
    /// The tool, or what else matchers of the event are about [default: Bash for a tool]
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// The tool's arguments as a JSON object; of UserPromptSubmit `{"prompt": "..."}`
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// With the hooks of this definition too
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The session and the tool call of the sample.
const SAMPLE: &str = "sample";

pub(super) fn run(args: HookTestArgs, context: &CliContext) -> Result<CliOutcome> {
    let event = match event_named(&args.event) {
        Ok(event) => event,
        Err(problem) => {
            let message = format!("`{}` {problem}", args.event);
            return Err(Failure::argument(message).with("event", args.event));
        }
    };
    let cwd = workspace::resolve_cwd(args.cwd.cwd.as_deref(), &context.env)?;
    let found = context.workspace(args.cwd.cwd.as_deref()).ok();
    let root = found.as_ref().map_or_else(|| cwd.clone(), |workspace| workspace.root.clone());
    let input = sample(event, &args, cwd)?;
    let agent = present(args.agent.clone());
    let wanted = agent.as_deref().map_or(DefinitionFilter::None, DefinitionFilter::Named);
    let origins = of_place(&args.config, &args.cwd, wanted, context)?;
    let hooks: Vec<Hook> = origins
        .iter()
        .flat_map(|(origin, _)| origin.hooks())
        .filter(|hook| hook.event == event && matches(hook, &input))
        .collect();
    let trusted = match &found {
        Some(workspace) if has_state(workspace) && !hooks.is_empty() => {
            let mut client = DaemonClient::new(context, workspace);
            block_on(async move { Trusted::of(&mut client).await })?
        }
        _ => Trusted::default(),
    };
    let stdin = serde_json::to_string(&input).map_err(|error| Failure::internal(error.to_string()))?;
    let mut ran = Vec::new();
    for hook in &hooks {
        ran.push(if trusted.allows(hook.origin, &hook.file, &hook.sha256) {
            let run = command(hook, &root, context.env.vars.clone(), stdin.clone());
            Ran::of(hook, execute(&run)?)
        } else {
            Ran::untrusted(hook)
        });
    }
    let decision = event.is_before().then(|| decided(&ran));
    let data = json!({
        "event": event.as_str(),
        "input": input,
        "count": ran.len(),
        "decision": decision,
        "items": ran.iter().map(Ran::report).collect::<Vec<_>>(),
    });
    let mut lines: Vec<String> = ran.iter().map(Ran::line).collect();
    lines.extend(decision.map(|decision| format!("decision: {decision}")));
    let files = trusted.missing(&hooks);
    let outcome = CliOutcome::list("hook.tested", data, lines.join("\n"), "(no hook is for this)");
    Ok(match files.is_empty() {
        true => outcome,
        false => outcome.with_note(untrusted::advice(files.iter().map(String::as_str))),
    })
}

fn matches(hook: &Hook, input: &HookInput) -> bool {
    // A matcher of a file that was read is one.
    Matcher::parse(hook.matcher.as_deref()).is_ok_and(|matcher| matcher.matches(input.subject()))
}

/// The input of a hook as a worker of this place would give it.
fn sample(event: HookEvent, args: &HookTestArgs, cwd: PathBuf) -> Result<HookInput> {
    let given = match args.input.as_deref().filter(|text| !text.trim().is_empty()) {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Failure::argument(format!("--input is not a JSON object: {error}")).with("flag", "--input")
        })?,
    };
    let name = present(args.tool.clone());
    let named = |default: &str| Some(name.clone().unwrap_or_else(|| default.to_owned()));
    let mut input = HookInput::new(event, WorkerId::from_random([0; 5]), cwd);
    input.session_id = Some(SAMPLE.to_owned());
    input.event_id = Some(EventId(1));
    match event {
        HookEvent::PreToolUse | HookEvent::PostToolUse | HookEvent::ApprovalRequested => {
            input.tool_name = named("Bash");
            input.tool_use_id = Some(SAMPLE.to_owned());
            input.tool_input = Some(Value::Object(given));
            if event == HookEvent::PostToolUse {
                input.status = Some("completed".to_owned());
                input.tool_response = Some(json!({}));
            }
        }
        HookEvent::UserPromptSubmit => {
            input.prompt = Some(given.get("prompt").and_then(Value::as_str).unwrap_or("hello").to_owned());
        }
        HookEvent::SessionStart => input.source = named("startup"),
        HookEvent::Notification => {
            input.notification_type = named("permission_prompt");
            input.message = Some(given.get("message").and_then(Value::as_str).unwrap_or(SAMPLE).to_owned());
        }
        HookEvent::SubagentStart | HookEvent::SubagentStop => {
            input.agent_type = named("general");
            input.agent_id = Some(SAMPLE.to_owned());
        }
        HookEvent::WorktreeCreate | HookEvent::WorktreeRemove => {
            input.name = Some(SAMPLE.to_owned());
            input.worktree_path = Some(input.cwd.join(SAMPLE).display().to_string());
        }
        HookEvent::Stop => {}
    }
    if matches!(event, HookEvent::Stop | HookEvent::SubagentStop) {
        input.status = Some("completed".to_owned());
        input.stop_hook_active = Some(false);
        input.last_assistant_message = Some(SAMPLE.to_owned());
    }
    Ok(input)
}

/// A hook, and what it said.
struct Ran<'a> {
    hook: &'a Hook,
    trusted: bool,
    result: Option<CommandResult>,
    answer: HookAnswer,
}

impl<'a> Ran<'a> {
    fn of(hook: &'a Hook, result: CommandResult) -> Self {
        let mut answer = HookAnswer::of_hook(hook, &result);
        if !hook.event.is_before() {
            // It is too late to deny: every exit status but 0 is a failure.
            answer.failed = result.end != CommandEnd::Exited { code: 0 };
            answer.word = HookWord::Nothing;
        }
        Self { hook, trusted: true, result: Some(result), answer }
    }

    fn untrusted(hook: &'a Hook) -> Self {
        let mut answer = HookAnswer::failure("its file is not trusted; it did not run".to_owned());
        if !hook.event.is_before() {
            answer.word = HookWord::Nothing;
        }
        Self { hook, trusted: false, result: None, answer }
    }

    fn report(&self) -> Value {
        json!({
            "command": self.hook.command,
            "origin": self.hook.origin.as_str(),
            "file": self.hook.file,
            "trusted": self.trusted,
            "end": self.result.as_ref().map(|result| &result.end),
            "stdout": self.result.as_ref().map(|result| &result.stdout),
            "stderr": self.result.as_ref().map(|result| &result.stderr),
            "says": self.answer.word.as_str(),
            "failed": self.answer.failed,
            "reason": self.answer.reason,
        })
    }

    fn line(&self) -> String {
        let says = if self.answer.failed { "failed" } else { self.answer.word.as_str() };
        format!("{says}\t{}\t{}", self.hook.command, self.answer.reason.as_deref().unwrap_or_default())
    }
}

/// What all of them say together: the strictest.
fn decided(ran: &[Ran<'_>]) -> &'static str {
    ran.iter().map(|ran| ran.answer.word).max().unwrap_or(HookWord::Nothing).as_str()
}

/// Runs a command as the daemon does.
fn execute(run: &CommandRun) -> Result<CommandResult> {
    let program = sibling_executable("subagent-runtime")?;
    attempt(&program, run).map_err(|error| {
        Failure::new(Code::Internal, format!("the hook could not be run: {error}"))
            .with("program", program.to_string_lossy())
            .with("error", error.to_string())
    })
}

fn attempt(program: &Path, run: &CommandRun) -> io::Result<CommandResult> {
    let mut child =
        Command::new(program).arg("command").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let closed = || io::Error::other("it has no standard input");
    let mut stdin = child.stdin.take().ok_or_else(closed)?;
    let mut line = serde_json::to_vec(run)?;
    line.push(b'\n');
    stdin.write_all(&line)?;
    // Its standard input stays open until it has ended: the end of that is the end of the command.
    let mut text = String::new();
    let mut stdout = child.stdout.take().ok_or_else(closed)?;
    io::Read::read_to_string(&mut stdout, &mut text)?;
    drop(stdin);
    child.wait()?;
    serde_json::from_str(&text).map_err(io::Error::other)
}
