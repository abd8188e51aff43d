//! Changing budgets.

use serde::{Deserialize, Serialize};

use super::controllers::ControllerChoice;
use crate::budget::LimitsChange;

/// `POST /v1/budgets`: changes what the workers of a controller may use together.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangeControllerBudget {
    /// Which controller.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// What is changed.
    pub limits: LimitsChange,
}
