//! `subagentd`, its status file and `subagent daemon`.
