//! Selects the agent's tool for a scripted action, and the form of its call. The names are the
//! agents' and not the vendors': a new agent may add a name here.

use serde_json::{Map, Value, json};

/// An action of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScriptedTool {
    /// A command for a shell.
    Shell(String),
    /// Reads the file with this path.
    Read(String),
    /// Writes a file with this path and content.
    Write(String, String),
    /// A subagent with this instruction.
    Delegate(String),
    /// A tool with this name, of any MCP server, with these arguments.
    Mcp(String, Map<String, Value>),
}

/// A call as it is sent over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// The group of the tool, for agents with such groups.
    pub namespace: Option<String>,
    pub name: String,
    pub input: Input,
}

/// The input of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// An object with named arguments.
    Args(Value),
    /// Free text without a schema.
    Text(String),
}

/// A tool that an agent offers its model.
#[derive(Debug)]
pub(super) struct OfferedTool {
    pub name: String,
    /// The names of its arguments; empty if the agent sends no schema.
    arguments: Vec<String>,
}

impl OfferedTool {
    /// Creates a tool whose arguments this JSON schema describes.
    pub(super) fn new(name: &str, schema: &Value) -> Self {
        let properties = schema["properties"].as_object().into_iter().flatten();
        Self { name: name.to_owned(), arguments: properties.map(|(name, _)| name.clone()).collect() }
    }

    /// Returns this agent's name of an argument that agents name differently; the first
    /// name without a schema.
    fn argument(&self, names: [&'static str; 3]) -> &'static str {
        let known = |name: &&&str| self.arguments.iter().any(|argument| argument == **name);
        names.iter().find(known).copied().unwrap_or(names[0])
    }

    /// Removes arguments that the agent would reject.
    fn takes(&self, mut args: Value) -> Input {
        if let Some(args) = args.as_object_mut().filter(|_| !self.arguments.is_empty()) {
            args.retain(|name, _| self.arguments.contains(name));
        }
        Input::Args(self.judged(args))
    }

    /// Adds the risk level that some agents require as an argument of every call.
    fn judged(&self, mut args: Value) -> Value {
        if self.arguments.iter().any(|argument| argument == "security_risk") {
            args["security_risk"] = "LOW".into();
        }
        args
    }

    fn path(&self) -> &'static str {
        self.argument(["file_path", "filePath", "path"])
    }
}

/// Returns the call for an action. The error, for the model to print, means that
/// no offered tool fits.
pub(super) fn choose(tool: &ScriptedTool, offered: &[OfferedTool]) -> Result<Call, String> {
    let first = |names: &[&'static str]| {
        let found = names.iter().find_map(|name| offered.iter().find(|offer| offer.name == *name));
        found.ok_or_else(|| format!("no tool for {tool:?} among {}", names_of(offered)))
    };
    let (offer, input) = match tool {
        ScriptedTool::Shell(command) => {
            let offer = first(&["Bash", "bash", "run_shell_command", "execute", "exec_command", "terminal"])?;
            let args = match offer.name.as_str() {
                // Otherwise the command would run in a sandbox, without a permission request.
                "exec_command" => json!({
                    "cmd": command,
                    "sandbox_permissions": "require_escalated",
                    "justification": "May it run?",
                }),
                _ => json!({"command": command, "description": "A command"}),
            };
            (offer, offer.takes(args))
        }
        ScriptedTool::Read(path) => {
            let offer =
                first(&["Read", "read", "read_file", "read_text_file", "exec_command", "file_editor"])?;
            let args = match offer.name.as_str() {
                // It has no other tool for this. Inside its sandbox it requests no permission.
                "exec_command" => json!({"cmd": format!("cat '{path}'")}),
                "file_editor" => json!({"command": "view", "path": path}),
                _ => json!({offer.path(): path}),
            };
            (offer, offer.takes(args))
        }
        ScriptedTool::Write(path, text) => {
            let offer =
                first(&["Write", "write", "write_file", "write_text_file", "apply_patch", "file_editor"])?;
            let input = match offer.name.as_str() {
                "apply_patch" => {
                    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
                    Input::Text(format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"))
                }
                "file_editor" => offer.takes(json!({
                    "command": "create",
                    "path": path,
                    "file_text": text,
                })),
                _ => Input::Args(json!({offer.path(): path, "content": text})),
            };
            (offer, input)
        }
        ScriptedTool::Delegate(prompt) => {
            let offer = first(&["Agent", "Task", "task", "invoke_agent"])?;
            let args = match offer.name.as_str() {
                "invoke_agent" => json!({"agent_name": "generalist", "prompt": prompt}),
                name => {
                    let has = |name: &str| offered.iter().any(|offer| offer.name == name);
                    let kind = match name {
                        "task" if has("file_editor") => "bash-runner",
                        "task" if !has("edit_file") => "general",
                        "Agent" if has("AgentSwarm") => "coder",
                        _ => "general-purpose",
                    };
                    let mut args = json!({"description": "A child", "subagent_type": kind});
                    args[offer.argument(["prompt", "description", "task"])] = json!(prompt);
                    args
                }
            };
            (offer, offer.takes(args))
        }
        ScriptedTool::Mcp(name, args) => return mcp(name, args, offered),
    };
    Ok(Call { namespace: None, name: offer.name.clone(), input })
}

/// The names of the tools in a request of any vendor.
pub(super) fn offered(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let each = tools.flat_map(|tool| match tool["functionDeclarations"].as_array() {
        Some(group) => group.iter().collect(),
        None => vec![tool],
    });
    let named = each.filter_map(|tool| tool["name"].as_str().or_else(|| tool["function"]["name"].as_str()));
    named.map(str::to_owned).collect()
}

fn names_of(offered: &[OfferedTool]) -> String {
    let names: Vec<_> = offered.iter().map(|offer| &offer.name).collect();
    format!("{names:?}")
}

/// Finds an MCP tool. Its name is prefixed with the server's, in each agent's own way. An agent
/// that can search for tools does not list them.
fn mcp(name: &str, args: &Map<String, Value>, offered: &[OfferedTool]) -> Result<Call, String> {
    let input = Input::Args(Value::Object(args.clone()));
    let (server, tool) = name.split_once('/').ok_or_else(|| format!("{name:?} is not SERVER/TOOL"))?;
    let ways = [
        format!("mcp__{server}__{tool}"),
        format!("mcp_{server}_{tool}"),
        format!("{server}_{tool}"),
        format!("{server}__{tool}"),
        tool.to_owned(),
    ];
    if let Some(offer) = offered.iter().find(|offer| ways.contains(&offer.name)) {
        let input = Input::Args(offer.judged(Value::Object(args.clone())));
        return Ok(Call { namespace: None, name: offer.name.clone(), input });
    }
    // Such an agent makes its model write a program that calls them.
    if let Some(offer) = offered.iter().find(|offer| offer.name == "run_typescript") {
        let code = format!("return await tools.mcp_{server}.{tool}({})", Value::Object(args.clone()));
        let args = Value::Object(Map::from_iter([(
            offer.argument(["code", "program", "source"]).to_owned(),
            code.into(),
        )]));
        return Ok(Call { namespace: None, name: offer.name.clone(), input: Input::Args(args) });
    }
    if offered.iter().any(|offer| offer.name == "tool_search" || offer.name.starts_with("mcp__")) {
        return Ok(Call { namespace: Some(format!("mcp__{server}")), name: tool.to_owned(), input });
    }
    Err(format!("no tool {name} among {}", names_of(offered)))
}
