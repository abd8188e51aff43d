//! Changes of controllers' budgets.

use serde::{Deserialize, Serialize};

use super::controllers::ControllerChoice;
use crate::budget::LimitsChange;

/// `POST /v1/budgets`: changes the budget shared by the workers of a controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangeControllerBudget {
    /// The controller to change.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// The limits to change.
    pub limits: LimitsChange,
}
