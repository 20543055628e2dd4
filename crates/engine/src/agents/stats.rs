//! What the agents of a home did and cost.

use std::collections::BTreeMap;

use rappel_types::agents::TokenCount;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::rappel::Rappel;

/// How many of the newest hours are told one by one.
const HOURS: usize = 48;

/// Figures over all sessions of a home.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct AgentStats {
    /// The sessions, those that took most tokens first.
    pub executions: Vec<ExecutionStats>,
    /// Tokens of a session on average, of those that counted any.
    pub tokens_per_execution: Option<f64>,
    /// The tools, most used first.
    pub tools: Vec<ToolStats>,
    /// Checkpoints an hour on average, of the hours that had any.
    pub checkpoints_per_hour: f64,
    /// Checkpoints in the newest hours that had any.
    pub hours: BTreeMap<String, u64>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ExecutionStats {
    pub session: String,
    pub workspace: Option<String>,
    pub provider: Option<String>,
    pub status: String,
    pub tokens: TokenCount,
    pub tokens_total: u64,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ToolStats {
    pub tool: String,
    pub calls: u64,
    pub failed: u64,
}

impl Rappel {
    pub(crate) fn agent_stats(&self) -> Result<AgentStats> {
        let (executions, tools, hours) = self.store.look_up(|index| {
            Ok((index.executions()?, index.tools()?, index.checkpoints_by_hour()?))
        })?;
        let executions: Vec<ExecutionStats> = executions
            .into_iter()
            .map(|row| {
                let [input, output, cache_read, cache_write] = row.tokens;
                let tokens = TokenCount { input, output, cache_read, cache_write };
                ExecutionStats {
                    session: row.session,
                    workspace: row.workspace,
                    provider: row.provider,
                    status: row.status,
                    tokens,
                    tokens_total: tokens.total(),
                }
            })
            .collect();
        let counted: Vec<u64> =
            executions.iter().map(|one| one.tokens_total).filter(|total| *total > 0).collect();
        let sum: u64 = counted.iter().sum();
        let made: u64 = hours.iter().map(|(_, count)| count).sum();
        let tools = tools.into_iter();
        Ok(AgentStats {
            tokens_per_execution: (!counted.is_empty()).then(|| sum as f64 / counted.len() as f64),
            executions,
            tools: tools
                .map(|row| ToolStats { tool: row.tool, calls: row.calls, failed: row.failed })
                .collect(),
            checkpoints_per_hour: if made == 0 { 0.0 } else { made as f64 / hours.len() as f64 },
            hours: hours.into_iter().rev().take(HOURS).collect(),
        })
    }
}
