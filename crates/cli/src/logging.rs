//! What happens inside, on stderr, for whoever asks with `RAPPEL_LOG`.

use tracing_subscriber::EnvFilter;

use crate::output::Output;
use crate::process;

/// Starts logging if `RAPPEL_LOG` holds a filter (`info`, `rappel=debug`). Otherwise nothing is even
/// made ready, since every command would pay for it.
pub fn start(output: &Output) {
    let Some(filter) = process::log_filter() else { return };
    match EnvFilter::try_new(&filter) {
        Ok(filter) => tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(output.paint_stderr().is_on())
            .init(),
        Err(error) => output.warning(&format!("RAPPEL_LOG={filter}: {error}; nothing is logged")),
    }
}
