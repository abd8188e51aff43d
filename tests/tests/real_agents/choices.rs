//! The options of an agent, the chosen ones, and its reports.

use serde_json::{Value, json};
use subagent_tests::model_server::ModelRequest;

use super::world::RealAgentWorld;

/// The agent offers no other mode and no model.
const NO_CHOICE: &str = "it offers none";

/// Contained in each prompt after a choice, and in none before.
const CHOSEN: &str = "chosen-by-the-user";

pub(crate) fn handshake(world: &RealAgentWorld) -> String {
    let name = world.agent.name;
    let probed = world.run(&["launcher", "probe", name, "--handshake"]).data_of("launcher.probed");
    let mut reported = probed["handshake"].clone();
    let agent = reported["agent"]["name"].as_str().map(|name| format!("`{name}`"));
    assert_eq!((&reported["error"], &reported["protocolVersion"]), (&Value::Null, &json!(1)), "{reported}");
    assert!(reported["capabilities"]["loadSession"] == true, "{reported}");
    let phases: Vec<_> = reported["phases"].as_array().unwrap().iter().map(|phase| &phase["phase"]).collect();
    assert_eq!(phases, ["spawn", "initialize", "session", "end"]);
    if let Some(version) = reported["agent"]["version"].as_str() {
        assert!(world.agent.version.split(" / ").any(|known| known == version), "{reported}");
    }
    reported.as_object_mut().unwrap().remove("raw").unwrap();
    let listed = world.run(&["launcher", "list"]).data_of("launcher.listed");
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.iter().find(|item| item["name"] == name).unwrap()["handshake"], reported);

    let models = count(&reported["models"]["availableModels"]);
    let has = [("models", models), ("options", count(&reported["configOptions"]))];
    let has = has.iter().filter(|(_, count)| *count > 0).map(|(what, _)| (*what).to_owned());
    let modes = format!("{} modes", modes_of(&reported).len());
    [agent.unwrap_or_else(|| "no name".into()), modes].into_iter().chain(has).collect::<Vec<_>>().join(", ")
}

fn count(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn modes_of(reported: &Value) -> Vec<String> {
    let modes = reported["modes"]["availableModes"].as_array();
    modes.into_iter().flatten().map(|mode| mode["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns what `worker show` knows of the agent.
fn shown(world: &RealAgentWorld, worker: &str) -> Value {
    world.sandbox.show(worker)["agent"].take()
}

pub(crate) fn usage(world: &RealAgentWorld) -> String {
    world.say("nothing was chosen");
    let agent = shown(world, &world.worker);
    assert!(agent["memoryBytes"].as_u64().is_some_and(|bytes| bytes > 10_000_000), "{agent}");
    assert_eq!(agent["restarts"], 0);
    let names = [
        ("mode", "mode"),
        ("model", "model"),
        ("contextUsed", "context used"),
        ("contextSize", "context size"),
        ("cost", "cost"),
        ("tokens", "tokens"),
        ("title", "title"),
    ];
    let known = names.iter().filter(|(field, _)| !agent[*field].is_null()).map(|(_, name)| *name);
    let known: Vec<_> = known.collect();
    if known.is_empty() { "nothing".into() } else { known.join(", ") }
}

pub(crate) fn at_start(world: &RealAgentWorld) -> String {
    let Some((mode, model)) = world.agent.chosen else { return NO_CHOICE.into() };
    let worker = world.start_with(&["--mode", mode, "--model", model]);
    chosen(world, &worker, &format!("{CHOSEN}, at the start"));
    world.stop(&worker);
    "yes".into()
}

pub(crate) fn idle(world: &RealAgentWorld) -> String {
    let Some((mode, model)) = world.agent.chosen else { return NO_CHOICE.into() };
    let flags = ["--mode", mode, "--model", model];
    let set = world.run(&[&["worker", "set", "--worker-id", &world.worker][..], &flags].concat());
    let set = set.data_of("worker.set");
    assert_eq!(set["applied"], true);
    let current = (&set["current"]["mode"], &set["current"]["model"]);
    assert_eq!(current, (&json!(mode), &json!(model)));
    chosen(world, &world.worker, &format!("{CHOSEN}, later"));
    "yes".into()
}

/// The agent is in the mode, and the model server gets requests for another model than before. The
/// result of the turn is up to the agent: some print more in another mode.
fn chosen(world: &RealAgentWorld, worker: &str, prompt: &str) {
    let agent = shown(world, worker);
    let current = (&agent["mode"], &agent["model"]);
    let (mode, model) = world.agent.chosen.unwrap();
    assert_eq!(current, (&json!(mode), &json!(model)), "{agent}");
    let before = world.models.requests().len();
    let end = world.send_to(worker, prompt)["matchedEvent"].take();
    assert_eq!(end["type"], "turn.completed", "{end}");
    let requests = world.models.requests();
    // The vendor's place for the model.
    let model = |request: &ModelRequest| (request.path.clone(), request.body["model"].clone());
    let usual: Vec<_> = requests.iter().take_while(|seen| !says(seen, CHOSEN)).map(model).collect();
    let asked = requests[before..].iter().filter(|seen| says(seen, prompt));
    assert!(asked.map(model).any(|model| !usual.contains(&model)), "only {usual:?} were asked");
}

fn says(request: &ModelRequest, text: &str) -> bool {
    request.body.to_string().contains(text)
}

pub(crate) fn unknown(world: &RealAgentWorld) -> String {
    let Some((mode, model)) = world.agent.chosen else { return NO_CHOICE.into() };
    let refused = |flag: &str| {
        let set = world.run(&["worker", "set", "--worker-id", &world.worker, flag, "no-such"]);
        set.error("OPTION_NOT_AVAILABLE")["details"]["available"].take()
    };
    let has = |list: &Value, value: &str| list.as_array().unwrap().iter().any(|known| known == value);
    let (modes, models) = (refused("--mode"), refused("--model"));
    assert!(has(&modes, mode) && has(&models, model), "{modes} {models}");
    let end = world.send("nothing has changed")["matchedEvent"].take();
    assert_eq!(end["type"], "turn.completed", "{end}");
    let modes: Vec<_> = modes.as_array().unwrap().iter().map(|mode| mode.as_str().unwrap()).collect();
    format!("refused; modes: {}", modes.join(", "))
}

pub(crate) fn unknown_at_start(world: &RealAgentWorld) -> String {
    let Some((mode, model)) = world.agent.chosen else { return NO_CHOICE.into() };
    for (flag, known) in [("--mode", mode), ("--model", model)] {
        let start = world.run(&["worker", "start", "--launcher", world.agent.name, flag, "no-such"]);
        let details = start.error("OPTION_NOT_AVAILABLE")["details"].take();
        let available = details["available"].as_array().unwrap();
        assert!(available.iter().any(|value| value == known), "{details}");
        let worker = details["workerId"].as_str().unwrap();
        assert_eq!(world.sandbox.show(worker)["state"], "error");
        world.stop(worker);
    }
    "the start fails".into()
}

/// Chooses a mode during a turn, which has to end normally.
pub(crate) fn in_turn(world: &RealAgentWorld) -> String {
    let Some((mode, _)) = world.agent.chosen else { return NO_CHOICE.into() };
    let worker = world.start();
    let gate = world.sandbox.gate("in-turn");
    let accepted = world.at_gate(&worker, &gate);
    let set = world.run(&["worker", "set", "--worker-id", &worker, "--mode", mode]);
    gate.open();
    let end = world.next(&worker, &accepted["acceptedEventId"]);
    assert_eq!(end["type"], "turn.completed", "{end}");
    let cell = if set.status.success() {
        assert_eq!(set.data_of("worker.set")["current"]["mode"], mode);
        assert_eq!(shown(world, &worker)["mode"], mode);
        "taken at once".into()
    } else {
        let error: Value = serde_json::from_str(&set.stdout).unwrap();
        format!("refused, `{}`", error["error"]["code"].as_str().unwrap())
    };
    world.stop(&worker);
    cell
}
