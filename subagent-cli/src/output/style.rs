//! What a piece of text means, and how that looks. Pure.

use anstyle::{AnsiColor, Effects, Style as Look};

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Ordinary text, without any style.
    Plain,
    /// A title, a name, the first words of a line.
    Strong,
    /// Text of less importance, dimmed.
    Dim,
    /// A good state, in green.
    Good,
    /// A failure, bold and red.
    Bad,
    /// Something that a person has to act on.
    Attention,
    /// It is going on.
    Active,
}

/// The word of a state for people. Tasks have another spelling on the wire than turns.
#[must_use]
pub fn state_word(state: &str) -> String {
    match state {
        "cancelled" => "canceled".to_owned(),
        other => other.replace('_', " "),
    }
}

impl Style {
    /// All styles, in their order.
    pub const ALL: [Self; 7] =
        [Self::Plain, Self::Strong, Self::Dim, Self::Good, Self::Bad, Self::Attention, Self::Active];

    /// The style of a state of a worker, of a controller, of a tool call or of the entry of a plan.
    #[must_use]
    pub fn of_state(state: &str) -> Self {
        match state {
            "idle" | "active" | "completed" | "available" => Self::Good,
            "error" | "failed" | "conflicted" | "missing" | "lost" => Self::Bad,
            "fetchable" | "waiting_approval" | "canceling" | "canceled" | "cancelled" | "orphaned" => {
                Self::Attention
            }
            "starting" | "running" | "in_progress" => Self::Active,
            "stopped" | "dormant" => Self::Dim,
            _ => Self::Plain,
        }
    }

    fn look(self) -> Look {
        let colour = |colour: AnsiColor| Look::new().fg_color(Some(colour.into()));
        match self {
            Self::Plain => Look::new(),
            Self::Strong => Look::new().effects(Effects::BOLD),
            Self::Dim => Look::new().effects(Effects::DIMMED),
            Self::Good => colour(AnsiColor::Green),
            Self::Bad => colour(AnsiColor::Red).effects(Effects::BOLD),
            Self::Attention => colour(AnsiColor::Yellow).effects(Effects::BOLD),
            Self::Active => colour(AnsiColor::Cyan),
        }
    }

    /// The codes before and after a text of this style.
    #[must_use]
    pub fn codes(self) -> (String, &'static str) {
        let look = self.look();
        let after = if look.is_plain() { "" } else { "\u{1b}[0m" };
        (look.render().to_string(), after)
    }
}
