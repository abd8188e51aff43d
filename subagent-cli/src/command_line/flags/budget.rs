//! Flags that limit what workers use.

use clap::Args;

use crate::command_line::numbers::{age, count};

/// `--max-turns` and the like.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct BudgetFlags {
    /// Maximum number of turns, or `none`
    #[arg(long, value_name = "N", value_parser = or_none(count))]
    pub(crate) max_turns: Option<Limited<u64>>,
    /// Maximum time of all turns, as 90s, 10m, 2h, or `none`; waiting for answers is free
    #[arg(long, value_name = "TIME", value_parser = or_none(time))]
    pub(crate) max_wall_time: Option<Limited<u64>>,
    /// Maximum number of tokens, as agents report them, or `none`
    #[arg(long, value_name = "N", value_parser = or_none(count))]
    pub(crate) max_tokens: Option<Limited<u64>>,
    /// Maximum cost, in the currency that agents report, or `none`
    #[arg(long, value_name = "AMOUNT", value_parser = or_none(cost))]
    pub(crate) max_cost: Option<Limited<f64>>,
    /// At a limit: refuse the next turn, cancel the open one too, or warn
    #[arg(long, value_name = "WHAT", value_parser = subagent_config::budgets::ON_LIMIT)]
    pub(crate) on_budget: Option<String>,
    /// If agents do not report their use: refuse the next turn, or warn
    #[arg(long, value_name = "WHAT", value_parser = subagent_config::budgets::ON_UNKNOWN)]
    pub(crate) on_unknown: Option<String>,
}

/// A limit, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limited<T>(pub Option<T>);

/// Returns a parser that also accepts `none`, which lifts the limit.
fn or_none<T: Clone + Send + Sync + 'static>(
    read: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Limited<T>, String> + Clone + Send + Sync + 'static {
    move |text| match text.trim() {
        "none" => Ok(Limited(None)),
        text => read(text).map(|limit| Limited(Some(limit))).map_err(|problem| format!("{problem}, or none")),
    }
}

/// A time in milliseconds, at least a second.
fn time(text: &str) -> Result<u64, String> {
    match age(text)? {
        0 => Err("must be 1s or more".to_owned()),
        seconds => Ok(seconds.saturating_mul(1000)),
    }
}

fn cost(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cost) if cost > 0.0 && cost <= 1_000_000_000.0 => Ok(cost),
        _ => Err("must be a number above 0 and at most 1000000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!(or_none(count)("5"), Ok(Limited(Some(5))));
        assert_eq!(or_none(time)("2m"), Ok(Limited(Some(120_000))));
        assert_eq!(or_none(cost)("0.5"), Ok(Limited(Some(0.5))));
        assert_eq!(or_none(cost)(" none "), Ok(Limited(None)));
        for wrong in ["0", "-1", "nan", "inf", "", "1e300", "5USD"] {
            assert!(or_none(cost)(wrong).is_err(), "{wrong}");
        }
        assert!(or_none(time)("0s").is_err() && or_none(time)("10").is_err());
        assert!(or_none(count)("0").is_err() && or_none(count)("1.5").is_err());
    }
}
