//! What turns have used, in sums.

use serde::{Deserialize, Serialize};

use crate::state::words;
use crate::time::Timestamp;

words! {
    /// What turns are put together by.
    UsageBy {
        /// The worker.
        Worker = "worker",
        /// The launcher of the worker.
        Agent = "agent",
        /// The model that was in use at the end of the turn.
        Model = "model",
        /// The day on which the turn began, in UTC.
        Day = "day",
    }
}

/// Data of `usage.shown`: what the stored turns of all workers have used. What tasks used is in their own workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageShown {
    /// What the items are put together by.
    pub by: UsageBy,
    /// Turns that began before this time are not included; null: all turns.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub since: Option<Timestamp>,
    /// Days in their order; others by their tokens, the largest number first.
    pub items: Vec<UsageItem>,
    /// The sums of all items.
    pub total: UsageSums,
}

/// The turns that have something in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageItem {
    /// The id of the worker, the name of the launcher, the model, or the day; null if it is not known.
    pub key: Option<String>,
    /// The name of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The sums.
    #[serde(flatten)]
    pub sums: UsageSums,
}

/// What turns have used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageSums {
    /// How many there are, open ones included.
    pub turns: u64,
    /// Their tokens.
    pub tokens: UsedTokens,
    /// Their cost.
    pub cost: UsedCost,
}

/// Tokens of turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsedTokens {
    /// The sum of what was reported; null if nothing was reported of turns that were sent.
    pub used: Option<u64>,
    /// Number of turns that have ended without a report. They are not in `used`.
    pub unreported: u64,
}

/// Cost of turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsedCost {
    /// One amount for each currency; null if nothing is known of turns that were sent.
    pub used: Option<Vec<UsedAmount>>,
    /// Number of turns that have ended and whose cost is neither reported nor computed. They are not in `used`.
    pub unreported: u64,
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsedAmount {
    /// The currency.
    pub currency: String,
    /// The amount.
    pub amount: f64,
    /// The part of `amount` that no agent has reported: it was computed from tokens by the `prices` of the config.
    pub computed: f64,
}
