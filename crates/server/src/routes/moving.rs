//! Moving in and out: export as a download, import of a file or folder of this machine.

use std::path::{Path as FilePath, PathBuf};

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::Response;
use rappel::{ExportOptions, Form, ImportOptions, Rappel};
use rappel_types::Reference;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::AsyncReadExt;

use super::upkeep::accepted;
use crate::app::App;
use crate::describe::{Endpoint, on_get, on_post};
use crate::extract::{Asked, At, Named, Sent, exactly};
use crate::jobs::JobAnswer;
use crate::problem::Problem;
use crate::values::{parse, parse_some};

pub fn endpoints() -> Vec<Endpoint> {
    vec![
        on_get("/api/checkpoints/{id}/export", "A checkpoint as a file", export)
            .query::<ExportQuery>()
            .sends(200, "application/octet-stream"),
        on_post("/api/import", "Import checkpoints of this or another tool", import)
            .body::<ImportBody>()
            .answers::<JobAnswer>(202),
    ]
}

/// How to write it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ExportQuery {
    /// `rappel`, `lugh`, `loki`, `forge`, `caf` or `aiwg` [default: rappel]. A form of several files
    /// comes as a tar archive.
    format: Option<String>,
    /// Leave out what looks like a secret.
    redact: bool,
}

async fn export(
    State(app): State<App>,
    At(workspace): At,
    Named(reference): Named,
    Asked(query): Asked<ExportQuery>,
) -> Result<Response, Problem> {
    let form: Form = match query.format {
        Some(text) => parse(&text)?,
        None => Form::Rappel,
    };
    let (name, file) =
        app.ask(workspace, move |rappel| write(rappel, &reference, form, query.redact)).await?;
    let length = file.metadata().map_err(|error| Problem::broken(error.to_string()))?.len();
    let pieces = futures_util::stream::unfold(tokio::fs::File::from_std(file), |mut file| async {
        let mut piece = vec![0; 64 << 10];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(read) => {
                piece.truncate(read);
                Some((Ok(piece), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::CONTENT_LENGTH, length)
        .header(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))
        .body(Body::from_stream(pieces))
        .map_err(|error| Problem::broken(error.to_string()))
}

/// Writes the checkpoint to a file without a name, whole before the first byte is sent.
fn write(
    rappel: &Rappel,
    reference: &Reference,
    form: Form,
    redact: bool,
) -> Result<(String, std::fs::File), Problem> {
    use std::io::Seek;
    let broken = |error: std::io::Error| Problem::broken(format!("cannot write: {error}"));
    let id = rappel.show(reference)?.manifest.id;
    let (reference, id) = (exactly(&id), id.to_string());
    // An imported id may hold anything; a header and a file's name may not.
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let id: String = id.chars().map(plain).collect();
    let mut file = tempfile::tempfile().map_err(broken)?;
    let folder = tempfile::tempdir().map_err(broken)?;
    let place = match form {
        Form::Forge => folder.path().join("checkpoints.json"),
        _ => folder.path().to_owned(),
    };
    let options =
        ExportOptions { form, redact, place: Some(place), ..ExportOptions::new(reference) };
    let name = if form == Form::Rappel {
        rappel.export_to(&options, &mut file)?;
        format!("{id}.rappel")
    } else {
        let exported = rappel.export(&options)?;
        pack(&exported.paths, folder.path(), &mut file)
            .map_err(broken)?
            .map_or_else(|| format!("{id}.{form}.tar"), |ending| format!("{id}.{form}.{ending}"))
    };
    file.rewind().map_err(broken)?;
    Ok((name, file))
}

/// One file as it is, with its ending; several, and folders, as an archive.
fn pack(
    paths: &[PathBuf],
    folder: &FilePath,
    out: &mut std::fs::File,
) -> std::io::Result<Option<String>> {
    if let [one] = paths
        && one.is_file()
    {
        std::io::copy(&mut std::fs::File::open(one)?, out)?;
        let ending = one.extension().unwrap_or_default().to_string_lossy();
        return Ok(Some(ending.into_owned()));
    }
    let mut archive = tar::Builder::new(out);
    archive.follow_symlinks(false);
    archive.append_dir_all(".", folder)?;
    archive.finish()?;
    Ok(None)
}

/// What to import.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ImportBody {
    /// The folder or file, absolute, on the server's machine.
    path: PathBuf,
    /// Its form; it is found out otherwise.
    #[serde(default)]
    format: Option<String>,
}

async fn import(
    State(app): State<App>,
    At(workspace): At,
    Sent(body): Sent<ImportBody>,
) -> Result<Response, Problem> {
    if !body.path.is_absolute() {
        return Err(Problem::malformed("`path` is an absolute path"));
    }
    let options = ImportOptions { path: body.path, form: parse_some(body.format)? };
    accepted(app.jobs.begin("import", workspace, move |rappel| Ok(rappel.import(&options)?)))
}
