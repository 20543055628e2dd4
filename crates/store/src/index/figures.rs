//! Figures over all sessions and checkpoints of a home: what was used, how often, how it went.

use rusqlite::Row;

use super::Index;
use crate::error::Result;

/// A session and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionRow {
    /// Its id.
    pub session: String,
    /// The workspace that it is of.
    pub workspace: Option<String>,
    /// How it stands.
    pub status: String,
    /// Whose agent it is.
    pub provider: Option<String>,
    /// Tokens of requests: read, written, read from a cache, written to one.
    pub tokens: [u64; 4],
}

/// A tool and how its calls went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRow {
    /// What it is called.
    pub tool: String,
    /// How often it was called.
    pub calls: u64,
    /// How often that failed.
    pub failed: u64,
}

impl Index {
    /// What each session cost, the dearest first. Of several counts of one request the highest counts.
    pub fn executions(&self) -> Result<Vec<ExecutionRow>> {
        self.figures(
            "WITH counted AS (
                 SELECT session, number, coalesce(json_extract(body, '$.data.message'), number) AS message,
                     coalesce(json_extract(body, '$.data.input'), 0) AS input,
                     coalesce(json_extract(body, '$.data.output'), 0) AS output,
                     coalesce(json_extract(body, '$.data.cache_read'), 0) AS cache_read,
                     coalesce(json_extract(body, '$.data.cache_write'), 0) AS cache_write
                 FROM event WHERE kind = 'tokens'),
             ranked AS (
                 SELECT *, row_number() OVER (
                     PARTITION BY session, message ORDER BY output DESC, number) AS place
                 FROM counted)
             SELECT s.id, s.workspace, s.status,
                 (SELECT json_extract(e.body, '$.data.provider') FROM event e
                     WHERE e.session = s.id AND e.number = 1),
                 coalesce(sum(r.input), 0), coalesce(sum(r.output), 0),
                 coalesce(sum(r.cache_read), 0), coalesce(sum(r.cache_write), 0)
             FROM session s LEFT JOIN ranked r ON r.session = s.id AND r.place = 1
             GROUP BY s.id ORDER BY coalesce(sum(r.input + r.output + r.cache_read + r.cache_write), 0)
                 DESC, s.id DESC",
            |row| {
                Ok(ExecutionRow {
                    session: row.get(0)?,
                    workspace: row.get(1)?,
                    status: row.get(2)?,
                    provider: row.get(3)?,
                    tokens: [row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?],
                })
            },
        )
    }

    /// How often each tool was called and failed, the most used first.
    pub fn tools(&self) -> Result<Vec<ToolRow>> {
        self.figures(
            "SELECT tool_id, count(DISTINCT id), count(DISTINCT CASE
                 WHEN success = 0 AND completed_at IS NOT NULL THEN id END)
             FROM tool_calls GROUP BY tool_id ORDER BY 2 DESC, tool_id",
            |row| Ok(ToolRow { tool: row.get(0)?, calls: row.get(1)?, failed: row.get(2)? }),
        )
    }

    /// How many checkpoints were made in each hour that had one, oldest first.
    pub fn checkpoints_by_hour(&self) -> Result<Vec<(String, u64)>> {
        self.figures(
            "SELECT strftime('%Y-%m-%dT%H:00:00Z', timestamp / 1000, 'unixepoch') AS hour, count(*)
             FROM checkpoints WHERE hour IS NOT NULL GROUP BY hour ORDER BY hour",
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    fn figures<T>(
        &self,
        query: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let fail = self.fail();
        let mut statement = self.connection.prepare_cached(query).map_err(&fail)?;
        let rows = statement.query_map([], read).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }
}
