//! The dashboard's files, embedded in the binary. A debug build reads them from the source tree.
//!
//! The page can restore without a token, so the policy lets it run only its own modules: nothing
//! inline, nothing from elsewhere, no frames.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::problem::Problem;

/// What the page may load, and from where.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

#[derive(RustEmbed)]
#[folder = "web/"]
struct Files;

/// Whether an address is one of the page's own files. They hold nothing of the user's, and a
/// browser that opens a page cannot send a token.
pub fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/web/")
}

/// One file, or that the browser has it already.
pub fn answer(path: &str, asked: &HeaderMap) -> Response {
    let file = kind(path).and_then(|kind| Files::get(path).map(|file| (kind, file)));
    let Some((kind, file)) = file else {
        return Problem::unknown("the dashboard has no such file").into_response();
    };
    let tag = tag(&file);
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, tag.as_str()),
    ];
    let known = asked.get(header::IF_NONE_MATCH).is_some_and(|value| value == tag.as_str());
    match known {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, file.data.into_owned()).into_response(),
    }
}

/// The content type, by the ending. A file of another kind is not served.
fn kind(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}

/// The first half of the content's hash.
fn tag(file: &EmbeddedFile) -> String {
    let hash = file.metadata.sha256_hash();
    let digits: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_all_that_it_names_are_there() {
        let page = answer("index.html", &HeaderMap::new());
        assert_eq!(page.status(), StatusCode::OK);
        for name in ["app.js", "api.js", "ui.js", "style.css"] {
            assert_eq!(answer(name, &HeaderMap::new()).status(), StatusCode::OK, "{name}");
        }
        let named = answer("../Cargo.toml", &HeaderMap::new());
        assert_eq!(named.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn a_browser_that_has_the_file_is_told_so() {
        let first = answer("app.js", &HeaderMap::new());
        let mut asked = HeaderMap::new();
        asked.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(answer("app.js", &asked).status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn the_page_s_files_stay_small() {
        let size: usize =
            Files::iter().filter_map(|name| Files::get(&name)).map(|f| f.data.len()).sum();
        assert!(size < 250_000, "{size} bytes");
    }

    #[test]
    fn nothing_that_an_agent_wrote_can_become_markup() {
        for name in Files::iter().filter(|name| name.ends_with(".js")) {
            let file = Files::get(&name).unwrap();
            let text = String::from_utf8(file.data.into_owned()).unwrap();
            for call in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
            ] {
                assert!(!text.contains(call), "{name} has {call}");
            }
        }
    }
}
