//! Taking secrets out of text before it is written where others read it.
//!
//! Not guaranteed: that every secret is found. A secret without a known form, a telling name or the look of chance
//! cannot be told from a word.

use std::borrow::Cow;

use serde_json::Value;

use crate::secret::{NAMES, PREFIXES, TOKEN_MIN};

/// The shortest word whose randomness says anything.
const RANDOM_MIN: usize = 24;
/// How often letters and digits take turns in a random word of that length, at the least.
const TURNS_MIN: usize = 4;
const DIGITS_MIN: usize = 3;
/// Words that stand before a secret in a header.
const SCHEMES: [&str; 5] = ["bearer", "basic", "digest", "token", "negotiate"];
/// The shortest word behind one of them, without a telling name, that is a secret.
const BEARER_MIN: usize = 16;

/// What a value is called that a telling name stands before.
const VALUE_OF: &str = "value of ";
/// What a word without any pattern is called.
const CHANCE: &str = "random text";

/// The text with `[redacted: …]` in the place of everything that looks like a secret.
pub fn text(text: &str) -> Cow<'_, str> {
    without(text, found(text))
}

/// The same, but for words that only look like chance: ids of calls and messages do, too.
pub fn sure(text: &str) -> Cow<'_, str> {
    let mut found = found(text);
    found.retain(|secret| secret.kind != CHANCE);
    without(text, found)
}

/// What kind of secret a file of this name with this text seems to hold, if any. Code that only
/// speaks of secrets (`password: String`, `token = next()`) holds none: outside of settings, a value
/// behind a telling name counts if it is quoted, if the name is in capitals, or if the line begins
/// with `name=`.
pub fn in_file(name: &str, text: &str) -> Option<String> {
    let settings = is_settings(name);
    let counts = |secret: &Secret| {
        let Some(telling) = secret.kind.strip_prefix(VALUE_OF) else { return true };
        let before = &text[..secret.start];
        let line = before.rsplit('\n').next().unwrap_or_default();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        settings
            || before.ends_with(['"', '\''])
            || !telling.bytes().any(|byte| byte.is_ascii_lowercase())
            || line.strip_suffix('=').is_some_and(|name| name.chars().all(is_word))
    };
    let is_variable = |secret: &Secret| text[secret.start..].starts_with(['$', '<']);
    let mut found = found(text).into_iter();
    found.find(|secret| counts(secret) && !is_variable(secret)).map(|secret| secret.kind)
}

/// The same for bytes that are no text: only what cannot be there by chance.
pub fn in_bytes(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = found(&text).into_iter();
    let sure = |secret: &Secret| secret.kind != CHANCE && !secret.kind.starts_with(VALUE_OF);
    found.find(sure).map(|secret| secret.kind)
}

/// Whether a file of this name holds settings, where every value stands for itself.
fn is_settings(name: &str) -> bool {
    const ENDINGS: [&str; 10] =
        ["yml", "yaml", "toml", "ini", "properties", "conf", "cfg", "json", "env", "netrc"];
    let base = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let ending = base.rsplit('.').next().unwrap_or_default();
    ENDINGS.contains(&ending) || base.starts_with(".env") || base.starts_with("credentials")
}

fn found(text: &str) -> Vec<Secret> {
    let mut found = keys(text);
    addresses(text, &mut found);
    words(text, &mut found);
    found.sort_by_key(|secret| (secret.start, std::cmp::Reverse(secret.end)));
    found
}

fn without(text: &str, found: Vec<Secret>) -> Cow<'_, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for Secret { start, end, kind } in found {
        if start < at {
            continue;
        }
        out.push_str(&text[at..start]);
        out.push_str(&format!("[redacted: {kind}]"));
        at = end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// The same for every text in a JSON value, and for values whose name says that they are secret.
pub fn value(value: &mut Value) {
    match value {
        Value::String(inner) => {
            if let Cow::Owned(clean) = text(inner) {
                *inner = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let says = |field: &Value| match field {
                    Value::String(inner) => !inner.is_empty(),
                    Value::Array(items) => !items.is_empty(),
                    Value::Object(inner) => !inner.is_empty(),
                    _ => false,
                };
                match field {
                    field if is_telling(name) && says(field) => {
                        *field = format!("[redacted: value of {name}]").into();
                    }
                    other => self::value(other),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Takes only tokens with a known beginning out of texts: what may be left of ids and names.
pub fn tokens(value: &mut Value) {
    match value {
        Value::String(inner) => {
            let kind_of = |word: &str| {
                let known = |(prefix, _): &&(&str, &str)| {
                    word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= TOKEN_MIN)
                };
                PREFIXES.iter().find(known).map(|(_, kind)| *kind)
            };
            let in_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            let words = inner.split(|c| !in_word(c));
            let found: Vec<(String, &str)> =
                words.filter_map(|word| Some((word.to_owned(), kind_of(word)?))).collect();
            for (word, kind) in found {
                *inner = inner.replace(&word, &format!("[redacted: {kind}]"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tokens),
        Value::Object(fields) => fields.values_mut().for_each(tokens),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

struct Secret {
    start: usize,
    end: usize,
    kind: String,
}

fn is_telling(name: &str) -> bool {
    let upper = name.to_ascii_uppercase().replace('-', "_");
    // `max_tokens` counts; it is no token.
    NAMES.iter().any(|part| upper.contains(part)) && !upper.contains("TOKENS")
}

/// Private keys, from their first line to their last.
fn keys(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("-----BEGIN ").map(|at| from + at) {
        let head = text[start + 11..].find("-----").map(|at| &text[start + 11..start + 11 + at]);
        from = start + 11;
        if !head.is_some_and(|head| head.contains("PRIVATE KEY")) {
            continue;
        }
        let end = text[from..].find("-----END ").map(|at| from + at + 9);
        let end = end.and_then(|at| text[at..].find("-----").map(|more| at + more + 5));
        // A key that was cut off is one all the same.
        let end = end.unwrap_or(text.len());
        found.push(Secret { start, end, kind: "private key".into() });
        from = end;
    }
    found
}

/// Passwords in addresses: `scheme://user:password@host`.
fn addresses(text: &str, found: &mut Vec<Secret>) {
    for (at, _) in text.match_indices("://") {
        let from = at + 3;
        let rest = &text[from..];
        let end = rest.find(|c: char| "/?#\"'`<>".contains(c) || c.is_whitespace());
        let Some(sign) = rest[..end.unwrap_or(rest.len())].rfind('@') else { continue };
        let Some(colon) = rest[..sign].find(':') else { continue };
        if colon + 1 < sign {
            let (start, end) = (from + colon + 1, from + sign);
            found.push(Secret { start, end, kind: "password".into() });
        }
    }
}

/// Tokens by their beginning, values by their name, and words that look like chance.
fn words(text: &str, found: &mut Vec<Secret>) {
    let in_word = |c: char| c.is_ascii_alphanumeric() || "_-.+/=".contains(c);
    let mut from = 0;
    while let Some(start) = text[from..].find(in_word).map(|at| from + at) {
        let length = text[start..].find(|c: char| !in_word(c)).unwrap_or(text.len() - start);
        let end = start + length;
        from = end;
        let word = &text[start..end];
        if let Some((name, value)) = word.split_once('=')
            && is_telling(name)
        {
            // `KEY=value`, and `KEY="a value"`, whose value is the next word.
            let (start, end) = match value.is_empty() {
                false => (start + name.len() + 1, end),
                true => quoted(text, end),
            };
            if start < end {
                from = from.max(end);
                found.push(Secret { start, end, kind: format!("{VALUE_OF}{name}") });
            }
            continue;
        }
        let name = word.trim_start_matches('-');
        if is_telling(name)
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            && let Some((start, end)) = value_behind(text, end, word.starts_with("--"))
        {
            from = from.max(end);
            found.push(Secret { start, end, kind: format!("{VALUE_OF}{name}") });
            continue;
        }
        if word.eq_ignore_ascii_case("bearer")
            && let Some((start, end)) = value_behind(text, end, true)
            && end - start >= BEARER_MIN
        {
            from = from.max(end);
            found.push(Secret { start, end, kind: "bearer token".into() });
            continue;
        }
        for part in word.split('=') {
            let place = start + (part.as_ptr() as usize - word.as_ptr() as usize);
            let known = PREFIXES.iter().find(|(prefix, _)| {
                part.strip_prefix(prefix).is_some_and(|rest| rest.len() >= TOKEN_MIN)
            });
            let kind = match known {
                Some((_, kind)) => kind,
                None if is_random(part) => CHANCE,
                None => continue,
            };
            found.push(Secret { start: place, end: place + part.len(), kind: kind.into() });
        }
    }
}

/// Where the value of a name stands that ends at `at`: `name: value`, `"name": "value"`, `name = 'value'`, and
/// `--name value`.
fn value_behind(text: &str, at: usize, is_flag: bool) -> Option<(usize, usize)> {
    let rest = text[at..].strip_prefix(['"', '\'']).unwrap_or(&text[at..]);
    let bare = rest.trim_start_matches(' ');
    let value = match bare.strip_prefix([':', '=']) {
        Some(value) => value.trim_start_matches(' '),
        None if is_flag && bare.len() < rest.len() => bare,
        None => return None,
    };
    let start = text.len() - value.len();
    let (start, end) = match value.chars().next()? {
        '"' | '\'' => quoted(text, start),
        _ => {
            let bare = |text: &str| {
                let end = text.find(|c: char| c.is_whitespace() || ",;\"'}])".contains(c));
                end.unwrap_or(text.len())
            };
            let mut length = bare(value);
            // `Authorization: Bearer …`: the word behind the scheme is the secret.
            if SCHEMES.iter().any(|scheme| value[..length].eq_ignore_ascii_case(scheme)) {
                let gap = value[length..].len() - value[length..].trim_start_matches(' ').len();
                length += gap + bare(&value[length + gap..]);
            }
            (start, start + length)
        }
    };
    (start < end && !text[start..].starts_with("[redacted: ")).then_some((start, end))
}

/// The text between quotes that begins here.
fn quoted(text: &str, at: usize) -> (usize, usize) {
    let Some(quote) = text[at..].chars().next().filter(|c| "\"'".contains(*c)) else {
        return (at, at);
    };
    let start = at + 1;
    let end = text[start..].find(quote).map_or(text.len(), |length| start + length);
    (start, end)
}

/// Whether a word has no pattern: cases and digits mixed all over. Hashes, ids and paths are no secrets.
fn is_random(word: &str) -> bool {
    let bytes = word.as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"+_-".contains(b);
    if bytes.len() < RANDOM_MIN || !bytes.iter().all(plain) {
        return false;
    }
    let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
    let turns = bytes.windows(2).filter(|w| w[0].is_ascii_digit() != w[1].is_ascii_digit()).count();
    digits >= DIGITS_MIN
        && turns >= TURNS_MIN
        && bytes.iter().any(u8::is_ascii_uppercase)
        && bytes.iter().any(u8::is_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_are_taken_out_and_the_rest_stays() {
        for (from, to) in [
            (
                "push with ghp_0123456789abcdefghijABCDEF now",
                "push with [redacted: github token] now",
            ),
            ("DB_PASSWORD=hunter2 make", "DB_PASSWORD=[redacted: value of DB_PASSWORD] make"),
            ("export API_KEY=\"a b c\"", "export API_KEY=\"[redacted: value of API_KEY]\""),
            ("password: hunter2, user: me", "password: [redacted: value of password], user: me"),
            (r#"{"password": "hunter2"}"#, r#"{"password": "[redacted: value of password]"}"#),
            ("PASSWORD = 'x y' z", "PASSWORD = '[redacted: value of PASSWORD]' z"),
            (
                "mysql --password hunter2 -u me",
                "mysql --password [redacted: value of password] -u me",
            ),
            ("psql postgres://me:pw@host/db", "psql postgres://me:[redacted: password]@host/db"),
            (
                "curl -H 'Authorization: Bearer 8f14e45fceea167a5a36dedd4bea2543' x",
                "curl -H 'Authorization: [redacted: value of Authorization]' x",
            ),
            (
                "authorization: Basic dXNlcjpwYXNzd29yZA== and on",
                "authorization: [redacted: value of authorization] and on",
            ),
            (
                "sent bearer 8f14e45fceea167a5a36dedd4bea2543.",
                "sent bearer [redacted: bearer token]",
            ),
            ("key Zx81kQ0pLm29Vb3nTr7sWy64 end", "key [redacted: random text] end"),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b",
                "a [redacted: private key] b",
            ),
        ] {
            assert_eq!(text(from), to);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for plain in [
            "commit 8f14e45fceea167a5a36dedd4bea2543 of main",
            "session 019a8c7e-4b1d-7c11-b2a5-0d3f6a4e9b10",
            "see crates/capture/src/databases/postgres2/restoring.rs:120",
            "getUserAccountBalanceForTenant1AndRegion2",
            "https://example.com/a:b@c?x=1",
            "the bearer of this letter",
            "max_tokens=4096 and the token count is 12",
            "2026-11-15T14:30:22.123Z x86_64-unknown-linux-gnu",
            "",
        ] {
            assert_eq!(text(plain), plain);
        }
    }

    #[test]
    fn a_file_holds_a_secret_or_only_speaks_of_one() {
        for (name, text) in [
            ("a.rs", "let key = \"sk-ant-0123456789abcdefghij\";"),
            ("a.py", "password = 'hunter2'"),
            ("run.sh", "export DB_PASSWORD=hunter2"),
            ("run.sh", "token=hunter2"),
            ("compose", "  - DB_PASSWORD=hunter2"),
            ("config/database.yml", "  password: hunter2"),
            ("id", "-----BEGIN OPENSSH PRIVATE KEY-----\nx"),
            ("notes.md", "psql postgres://me:pw@host/db"),
        ] {
            assert!(in_file(name, text).is_some(), "{name}: {text}");
        }
        for (name, text) in [
            ("a.rs", "struct Login { password: String }"),
            ("a.ts", "  token: string;"),
            ("a.py", "    login(password=password, secret=os.environ[name])"),
            ("run.sh", "DB_PASSWORD=$1"),
            ("a.yml", "password: ${DB_PASSWORD}"),
            ("README.md", "set the token, then restart"),
        ] {
            assert_eq!(in_file(name, text), None, "{name}: {text}");
        }
        let token = b"\xff\x00ghp_0123456789abcdefghijABCDEF\x00";
        assert_eq!(in_bytes(token).as_deref(), Some("github token"));
        assert_eq!(in_bytes(b"\xffZx81kQ0pLm29Vb3nTr7sWy64"), None);
    }

    #[test]
    fn ids_that_look_like_chance_stay_where_only_the_sure_goes() {
        let line = r#"{"id": "toolu_01AbCdEf23GhIj45KlMn67Op", "password": "hunter2"}"#;
        let clean = r#"{"id": "toolu_01AbCdEf23GhIj45KlMn67Op", "password": "[redacted: value of password]"}"#;
        assert_eq!(sure(line), clean);
    }

    #[test]
    fn names_in_json_tell() {
        let mut json = serde_json::json!({"env": {"STRIPE_SECRET": "x"}, "cmd": ["A_TOKEN=y"], "max_tokens": 3, "password": ["z"]});
        value(&mut json);
        assert_eq!(json["env"]["STRIPE_SECRET"], "[redacted: value of STRIPE_SECRET]");
        assert_eq!(json["cmd"][0], "A_TOKEN=[redacted: value of A_TOKEN]");
        assert_eq!(json["max_tokens"], 3);
        assert_eq!(json["password"], "[redacted: value of password]");
    }

    proptest! {
        #[test]
        fn any_text_can_be_redacted_twice(input in "\\PC{0,200}") {
            let once = text(&input).into_owned();
            prop_assert_eq!(text(&once).into_owned(), once);
        }
    }
}
