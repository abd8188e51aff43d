//! The `data` of events about budgets.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{Budget, Limits, OnLimit, OnUnknown, Scope};
use crate::ids::WorkerId;

/// A budget is used up. Reported once, until the limit is raised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetExceeded {
    /// The owner of the budget.
    pub scope: Scope,
    /// For a worker above: its id.
    #[serde(rename = "workerId")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The quantity that the limit bounds.
    pub budget: Budget,
    /// The limit that was reached.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub limit: Value,
    /// The amount used so far.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub used: Value,
    /// Unit of both amounts.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub unit: Option<String>,
    /// What happens to the worker now.
    pub action: OnLimit,
}

/// A turn was started although the usage of a budget is unknown. Reported once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetUnknown {
    /// The owner of the budget.
    pub scope: Scope,
    /// For a worker above: its id.
    #[serde(rename = "workerId")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The quantity that the limit bounds.
    pub budget: Budget,
    /// Number of turns with unknown usage.
    pub unreported: u64,
    /// What happens to the worker now.
    pub action: OnUnknown,
}

/// Limits of a worker were changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetChanged {
    /// The owner of the budget.
    pub scope: Scope,
    /// All limits that are set now.
    pub limits: Limits,
}
