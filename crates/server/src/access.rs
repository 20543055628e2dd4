//! Who may call: the rules, as a pure function of what is known of a request.
//!
//! - A process of the same user on the same machine needs no token. Any other caller does.
//! - A request is answered only if its `Host` is one of ours. A page of another site can make a
//!   browser send requests here under that site's name (DNS rebinding); its `Host` gives it away.
//! - What a browser sends for a page of another origin is refused. There is no CORS.
//!
//! Not guaranteed: a program of the same user may do everything. It could as well write to the home.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

/// What the server allows.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The user that the server runs as.
    pub user: u32,
    /// Names that a `Host` may have besides those of this machine's loopback.
    pub hosts: Vec<String>,
    /// Whether the server listens on every address of the machine. A `Host` may then be any address:
    /// only a name can be made to lead here by somebody else.
    pub any_address: bool,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The `Host` is not one of ours.
    Host,
    /// A page of another origin asks.
    Origin,
    /// There is no token, or a wrong one.
    Token,
}

impl Rules {
    /// Whether a request may be answered. `peer` is the user at the other end, if that is known;
    /// `token` reads what callers have to show that are not this user.
    pub fn check(
        &self,
        headers: &HeaderMap,
        peer: Option<u32>,
        token: impl FnOnce() -> Option<String>,
    ) -> Result<(), Refusal> {
        self.check_page(headers)?;
        if peer == Some(self.user) {
            return Ok(());
        }
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown = shown.and_then(|value| value.strip_prefix("Bearer "));
        match shown.zip(token()) {
            Some((shown, token)) if is_equal(shown.trim(), &token) => Ok(()),
            _ => Err(Refusal::Token),
        }
    }

    /// Whether the dashboard's own files may be answered: as `check`, without the token, which a
    /// browser cannot send when it opens a page.
    pub fn check_page(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("\0"));
        let host = text(header::HOST).filter(|host| self.is_ours(host)).ok_or(Refusal::Host)?;
        if text(header::ORIGIN).is_some_and(|origin| !is_same(origin, host)) {
            return Err(Refusal::Origin);
        }
        let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("\0"));
        if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Err(Refusal::Origin);
        }
        Ok(())
    }

    /// `localhost`, `127.0.0.1` or `[::1]` on any port, so that tunnels work; or a name that the
    /// user allowed.
    fn is_ours(&self, host: &str) -> bool {
        let name = without_port(host);
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let is_here = |address: IpAddr| self.any_address || address.is_loopback();
        name.eq_ignore_ascii_case("localhost")
            || bare.parse().is_ok_and(is_here)
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// A `Host` without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            // An address of IPv6 without brackets has colons of its own.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

/// Whether an `Origin` is the page that this server serves under the name `host`.
fn is_same(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Compares without telling by its time how much was right.
fn is_equal(shown: &str, token: &str) -> bool {
    let differing = shown.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    shown.len() == token.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u32 = 1000;

    fn check(headers: &[(&str, &str)], peer: Option<u32>) -> Result<(), Refusal> {
        let rules = Rules { user: ME, hosts: vec!["box.lan".into()], any_address: false };
        let map = headers.iter().map(|(name, value)| {
            let name = axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, axum::http::HeaderValue::from_str(value).unwrap())
        });
        rules.check(&map.collect(), peer, || Some("abc123".into()))
    }

    #[test]
    fn a_process_of_the_same_user_needs_no_token() {
        for host in ["localhost:57374", "127.0.0.1", "[::1]:9", "127.0.0.1:80", "box.lan:57374"] {
            assert_eq!(check(&[("host", host)], Some(ME)), Ok(()), "{host}");
        }
    }

    #[test]
    fn a_server_on_every_address_goes_by_any_of_them_and_by_no_other_name() {
        let rules = Rules { user: ME, hosts: Vec::new(), any_address: true };
        for (host, is_ours) in [("192.0.2.7:57374", true), ("[2001:db8::7]", true), ("evil", false)]
        {
            assert_eq!(rules.is_ours(host), is_ours, "{host}");
        }
        let rules = Rules { any_address: false, ..rules };
        assert!(!rules.is_ours("192.0.2.7:57374"));
    }

    #[test]
    fn other_users_and_unknown_callers_show_the_token() {
        for peer in [None, Some(0), Some(1001)] {
            let host = ("host", "localhost");
            assert_eq!(check(&[host], peer), Err(Refusal::Token));
            for wrong in ["abc12", "abc1234", "ABC123", "", "Bearer abc123"] {
                let shown = format!("Bearer {wrong}");
                assert_eq!(check(&[host, ("authorization", &shown)], peer), Err(Refusal::Token));
            }
            assert_eq!(
                check(&[host, ("authorization", "Basic abc123")], peer),
                Err(Refusal::Token)
            );
            assert_eq!(check(&[host, ("authorization", "Bearer abc123")], peer), Ok(()));
        }
    }

    #[test]
    fn a_name_that_another_site_owns_is_refused_even_to_the_same_user() {
        for host in [
            "evil.example",
            "evil.example:57374",
            "localhost.evil.example",
            "127.0.0.1.evil.example:57374",
            "box.lan.evil.example",
            "10.0.0.1:57374",
            "[2001:db8::1]:57374",
            "",
        ] {
            assert_eq!(check(&[("host", host)], Some(ME)), Err(Refusal::Host), "{host}");
        }
        assert_eq!(check(&[], Some(ME)), Err(Refusal::Host));
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let host = ("host", "localhost:57374");
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:3000",
            "http://127.0.0.1:57374",
            "file://",
        ] {
            assert_eq!(
                check(&[host, ("origin", origin)], Some(ME)),
                Err(Refusal::Origin),
                "{origin}"
            );
        }
        for site in ["cross-site", "same-site", "\u{e9}"] {
            assert_eq!(check(&[host, ("sec-fetch-site", site)], Some(ME)), Err(Refusal::Origin));
        }
        let own = [host, ("origin", "http://localhost:57374"), ("sec-fetch-site", "same-origin")];
        assert_eq!(check(&own, Some(ME)), Ok(()));
        assert_eq!(check(&[host, ("sec-fetch-site", "none")], Some(ME)), Ok(()));
    }
}
