//! Converts the limits of the config for a request. Pure.

use subagent_protocol::budget::{Limits, OnLimit, OnUnknown};

use super::wire::millis;
use crate::budgets;

/// Converts the limits of the config.
#[must_use]
pub fn of_config(limits: &budgets::BudgetLimits) -> Limits {
    Limits {
        turns: limits.turns,
        wall_time_ms: limits.wall_time.map(|time| millis(time).max(1)),
        tokens: limits.tokens,
        cost: limits.cost,
        on_limit: limits.on_limit.and_then(OnLimit::parse),
        on_unknown: limits.on_unknown.and_then(OnUnknown::parse),
    }
}
