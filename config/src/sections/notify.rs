//! Notification targets: the key `notify` of the user's config file. Pure.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use subagent_protocol::ids::hex;
use subagent_protocol::notification::{Detail, Format, Occasion};

use crate::agents::keys::KeyPositions;
use crate::check::{CheckResult, refuse, required_string};
use crate::error::FieldPath;
use crate::mcp::expand;
use crate::policy::Position;
use crate::section::Section;
use crate::webhook_url;

/// The occasions of an entry without `on`.
const DEFAULT: [Occasion; 5] =
    [Occasion::Question, Occasion::Failed, Occasion::Lost, Occasion::SchedulePaused, Occasion::TriggerPaused];

/// What can be in `on`.
const OCCASIONS: [Occasion; 9] = [
    Occasion::Question,
    Occasion::Done,
    Occasion::Failed,
    Occasion::Lost,
    Occasion::Budget,
    Occasion::QueuePaused,
    Occasion::Parked,
    Occasion::SchedulePaused,
    Occasion::TriggerPaused,
];

/// One entry of `notify`. Texts of `to` may contain `${NAME}` and `${NAME:-default}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationSink {
    /// Name in `notify list` and `notify log`.
    pub name: String,
    /// The occasions that trigger it.
    pub on: NotifyOccasions,
    /// Tag selector for workers; `None` selects all.
    pub selector: Option<String>,
    /// The amount of detail in its text.
    pub detail: Detail,
    /// The target of the notification.
    pub to: NotificationChannel,
}

/// The occasions of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyOccasions {
    /// The default: questions, failures, lost workers, and ends of turns that no command waits for.
    Default,
    /// The occasions listed in `on`.
    These(Vec<Occasion>),
}

impl NotifyOccasions {
    /// Whether this occasion triggers the entry. `is_detached` says whether no command waits for
    /// the worker's turns.
    pub fn includes(&self, occasion: Occasion, is_detached: impl FnOnce() -> bool) -> bool {
        match self {
            Self::These(these) => these.contains(&occasion),
            Self::Default => DEFAULT.contains(&occasion) || (occasion == Occasion::Done && is_detached()),
        }
    }

    /// The occasions that trigger it for every worker.
    #[must_use]
    pub fn listed(&self) -> &[Occasion] {
        match self {
            Self::Default => &DEFAULT,
            Self::These(these) => these,
        }
    }
}

/// The channel of a notification.
#[derive(Clone, PartialEq, Eq)]
pub enum NotificationChannel {
    /// The desktop, through `notify-send`.
    Desktop,
    /// The bell of the user's terminals.
    Bell,
    /// A command line for `sh -c`. It reads the notification as JSON from stdin.
    Command(String),
    /// An HTTP request to a URL.
    Webhook {
        /// The URL of the webhook.
        url: String,
        /// The format of the body.
        format: Format,
        /// The key that signs the body.
        secret: Option<String>,
        /// Whether `http` to remote machines is allowed.
        insecure: bool,
    },
}

impl std::fmt::Debug for NotificationChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // URLs and secrets must not appear in logs.
        f.write_str(self.as_str())
    }
}

impl NotificationChannel {
    /// Expands `${NAME}` and `${NAME:-default}`. The shell expands those of `command`.
    ///
    /// # Errors
    /// The name of an unset variable, or the reason why a URL is refused; never a value.
    pub fn resolved(&self, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let Self::Webhook { url, format, secret, insecure } = self else { return Ok(self.clone()) };
        let expanded = |text: &str| {
            expand(text, lookup).map_err(|name| {
                format!("the variable {name} is not set where the daemon was started; set it, then run `subagent daemon stop`")
            })
        };
        let url = expanded(url)?;
        webhook_url::check(&url, *insecure).map_err(|problem| format!("`url` {problem}"))?;
        let secret = secret.as_deref().map(expanded).transpose()?;
        Ok(Self::Webhook { url, format: *format, secret, insecure: *insecure })
    }

    /// The word in the config.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Bell => "bell",
            Self::Command(_) => "command",
            Self::Webhook { .. } => "webhook",
        }
    }
}

const KEYS: [&str; 10] =
    ["name", "on", "where", "to", "url", "format", "secret", "insecure", "command", "detail"];

/// Returns the position of a place; for a missing key, that of the entry's first key.
pub(crate) fn position(keys: &KeyPositions, place: &FieldPath) -> Option<Position> {
    let field = match place {
        FieldPath::Field(field) => field.clone(),
        FieldPath::Element { field, index } => format!("{field}[{index}]"),
        _ => return None,
    };
    let path: Vec<&str> = field.split(['.', '[', ']']).filter(|part| !part.is_empty()).collect();
    if path.first() != Some(&"notify") {
        return None;
    }
    let of_key = (3..=path.len()).rev().filter_map(|depth| path.get(..depth)).find(|path| keys.has(path));
    match of_key {
        Some(path) => keys.of(path),
        None => path.get(..2).and_then(|entry| keys.first_below(entry)).or_else(|| keys.of(&path)),
    }
}

pub(crate) fn sinks(root: &Map<String, Value>) -> CheckResult<Vec<NotificationSink>> {
    let entries = Section::root(root).list("notify")?;
    let mut sinks: Vec<NotificationSink> = Vec::new();
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let sink = sink(entry, index)?;
        if sinks.iter().any(|other| other.name == sink.name) {
            let place = FieldPath::Field(format!("notify[{index}].name"));
            return refuse(
                place,
                format!("`{}` is the name of an earlier entry too; give each its own", sink.name),
            );
        }
        sinks.push(sink);
    }
    Ok(sinks)
}

fn sink(entry: &Value, index: usize) -> CheckResult<NotificationSink> {
    let given = Section::of(entry, format!("notify[{index}]"))?;
    has_only(&given, &KEYS)?;
    let to = target(&given)?;
    let on = match given.list("on")? {
        None => NotifyOccasions::Default,
        Some(words) => {
            let element = |index| FieldPath::Element { field: given.field("on"), index };
            let read = |(index, word)| occasion(word, &element(index));
            NotifyOccasions::These(words.iter().enumerate().map(read).collect::<CheckResult<_>>()?)
        }
    };
    let selector = match given.section("where")? {
        None => None,
        Some(holder) => {
            has_only(&holder, &["tag"])?;
            holder.text("tag")?
        }
    };
    if let Some(selector) = &selector
        && let Err(error) = subagent_protocol::tags::Selector::parse(selector)
    {
        return refuse(given.place("where.tag"), error.message);
    }
    let detail = match given.string("detail")? {
        None => Detail::Subject,
        Some(word) => known(Detail::parse(word), word, "subject or full", &given.place("detail"))?,
    };
    let name = match given.text("name")? {
        Some(name) if name.len() <= MAX_NAME_BYTES => name,
        Some(_) => {
            return refuse(given.place("name"), format!("is longer than {MAX_NAME_BYTES} bytes"));
        }
        None => format!("{}-{}", to.as_str(), fingerprint(entry)),
    };
    Ok(NotificationSink { name, on, selector, detail, to })
}

fn has_only(given: &Section<'_>, known: &[&str]) -> CheckResult<()> {
    match given.given.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            refuse(given.own_place(), format!("has the unknown key `{key}`; known: {}", known.join(", ")))
        }
    }
}

/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Identifies an unnamed entry independently of its order.
fn fingerprint(entry: &Value) -> String {
    hex(&Sha256::digest(entry.to_string())[..4])
}

fn occasion(word: &Value, place: &FieldPath) -> CheckResult<Occasion> {
    let text = required_string(word, || place.clone())?;
    let found = OCCASIONS.into_iter().find(|occasion| occasion.as_str() == text);
    let all = OCCASIONS.map(Occasion::as_str).join(", ");
    known(found, text, &all, place)
}

fn known<T>(found: Option<T>, word: &str, all: &str, place: &FieldPath) -> CheckResult<T> {
    match found {
        Some(found) => Ok(found),
        None => refuse(place.clone(), format!("says `{word}`; known: {all}")),
    }
}

fn target(given: &Section<'_>) -> CheckResult<NotificationChannel> {
    let Some(to) = given.text("to")? else {
        return refuse(given.place("to"), "is missing; write desktop, bell, command or webhook");
    };
    let needed = |key: &str| match given.text(key)? {
        Some(value) => Ok(value),
        None => refuse(given.place(key), format!("is missing; `to: {to}` needs it")),
    };
    let target = match to.as_str() {
        "desktop" => NotificationChannel::Desktop,
        "bell" => NotificationChannel::Bell,
        "command" => NotificationChannel::Command(needed("command")?),
        "webhook" => NotificationChannel::Webhook {
            url: needed("url")?,
            format: match given.string("format")? {
                None => Format::Json,
                Some(word) => {
                    known(Format::parse(word), word, "json, text or slack", &given.place("format"))?
                }
            },
            secret: given.text("secret")?,
            insecure: given.flag("insecure")?.unwrap_or(false),
        },
        other => {
            let problem = format!("says `{other}`; write desktop, bell, command or webhook");
            return refuse(given.place("to"), problem);
        }
    };
    // A URL with variables is checked on use.
    if let NotificationChannel::Webhook { url, insecure, .. } = &target
        && !url.contains("${")
        && let Err(problem) = webhook_url::check(url, *insecure)
    {
        return refuse(given.place("url"), problem);
    }
    let own: &[&str] = match target {
        NotificationChannel::Webhook { .. } => &["url", "format", "secret", "insecure"],
        NotificationChannel::Command(_) => &["command"],
        NotificationChannel::Desktop | NotificationChannel::Bell => &[],
    };
    let others = ["url", "format", "secret", "insecure", "command"];
    match others.into_iter().find(|key| given.given.contains_key(*key) && !own.contains(key)) {
        Some(key) => refuse(given.place(key), format!("has no meaning with `to: {to}`")),
        None => Ok(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipes_of_the_documentation_work() {
        let page = include_str!("../../../docs/notifications.md");
        let blocks: Vec<&str> =
            page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(blocks.len() >= 4, "{blocks:?}");
        let variable = |name: &str| {
            Some(if name.ends_with("URL") { "https://example.com/hook" } else { "whsec_c2VjcmV0" }.to_owned())
        };
        let mut formats = Vec::new();
        for block in blocks {
            let document = crate::syntax::parse(block).unwrap();
            let found =
                sinks(document.as_object().unwrap()).unwrap_or_else(|error| panic!("{block}: {error:?}"));
            assert_eq!(found.len(), 1, "{block}");
            for sink in found {
                if let NotificationChannel::Webhook { url, format, .. } = sink.to.resolved(&variable).unwrap()
                {
                    assert!(!url.contains('$'), "{block}");
                    formats.push(format);
                }
            }
        }
        assert_eq!(formats, [Format::Text, Format::Slack, Format::Json]);
    }
}
