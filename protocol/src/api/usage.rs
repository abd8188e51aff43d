//! Sums of the usage of turns.

use serde::{Deserialize, Serialize};

use crate::state::words;
use crate::time::Timestamp;

words! {
    /// The grouping of usage.
    UsageBy {
        /// By the worker's id.
        Worker = "worker",
        /// By the worker's launcher.
        Agent = "agent",
        /// By the model in use at the end of the turn.
        Model = "model",
        /// By the day on which the turn started, in UTC.
        Day = "day",
    }
}

/// Data of `usage.shown`: the usage of all stored turns of all workers. Usage of tasks is
/// in their own workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageShown {
    /// How the items are grouped.
    pub by: UsageBy,
    /// Turns that started before this time are not included; null: all turns.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub since: Option<Timestamp>,
    /// Days in order; others by tokens, the largest number first.
    pub items: Vec<UsageItem>,
    /// The sums of all items.
    pub total: UsageSums,
}

/// One group of turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageItem {
    /// The id of the worker, the name of the launcher, the model, or the day; null if unknown.
    pub key: Option<String>,
    /// Name of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Sums of the group.
    #[serde(flatten)]
    pub sums: UsageSums,
}

/// The usage of turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageSums {
    /// Number of turns, including open ones.
    pub turns: u64,
    /// Tokens of the turns.
    pub tokens: UsedTokens,
    /// Cost of the turns.
    pub cost: UsedCost,
}

/// Tokens of several turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsedTokens {
    /// The sum of the reported tokens; null if no sent turn reported any.
    pub used: Option<u64>,
    /// Number of ended turns without a report, which are not in `used`.
    pub unreported: u64,
}

/// Cost of several turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsedCost {
    /// One amount per currency; null if nothing is known of sent turns.
    pub used: Option<Vec<UsedAmount>>,
    /// Number of ended turns whose cost is neither reported nor computed. They are not in `used`.
    pub unreported: u64,
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsedAmount {
    /// The ISO currency code.
    pub currency: String,
    /// The amount in this currency.
    pub amount: f64,
    /// The part of `amount` that was not reported but computed from tokens
    /// with the config's `prices`.
    pub computed: f64,
}
