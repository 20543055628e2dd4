//! What looks like a secret: names and values that must not be written where others read.

/// Parts of names whose values are secrets.
pub(crate) const NAMES: [&str; 12] = [
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "AUTHORIZATION",
    "COOKIE",
];

/// How the tokens of well-known services begin, and what they are.
pub(crate) const PREFIXES: [(&str, &str); 20] = [
    ("ghp_", "github token"),
    ("gho_", "github token"),
    ("ghu_", "github token"),
    ("ghs_", "github token"),
    ("ghr_", "github token"),
    ("github_pat_", "github token"),
    ("glpat-", "gitlab token"),
    ("sk-ant-", "anthropic key"),
    ("sk-", "api key"),
    ("sk_live_", "stripe key"),
    ("sk_test_", "stripe key"),
    ("rk_live_", "stripe key"),
    ("xoxb-", "slack token"),
    ("xoxp-", "slack token"),
    ("AKIA", "aws key"),
    ("ASIA", "aws key"),
    ("AIza", "google key"),
    ("npm_", "npm token"),
    ("hf_", "hugging face token"),
    ("eyJ", "json web token"),
];

/// The shortest thing behind such a prefix that is a token and not a word.
pub(crate) const TOKEN_MIN: usize = 16;
/// The shortest text whose randomness says anything.
const RANDOM_MIN: usize = 20;
/// Bits for each character from which a text is taken for random.
const RANDOM_BITS: f64 = 3.9;

/// What kind of secret the variable `name` with this value seems to be, if any.
pub fn of_variable(name: &str, value: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    if !value.is_empty() && NAMES.iter().any(|part| upper.contains(part)) {
        return Some("secret by its name");
    }
    of_value(value)
}

/// What kind of secret a value seems to be, if any.
pub fn of_value(value: &str) -> Option<&'static str> {
    if value.contains("-----BEGIN ") && value.contains("PRIVATE KEY") {
        return Some("private key");
    }
    if has_credentials(value) {
        return Some("address with a password");
    }
    let word = |c: char| !(c.is_ascii_alphanumeric() || "_-.+/=".contains(c));
    for text in value.split(word) {
        let known = PREFIXES.iter().find(|(prefix, _)| {
            text.strip_prefix(prefix).is_some_and(|rest| rest.len() >= TOKEN_MIN)
        });
        if let Some((_, kind)) = known {
            return Some(kind);
        }
    }
    is_random(value).then_some("random text")
}

/// Whether a text holds an address with a password in it: `scheme://user:password@host`.
fn has_credentials(value: &str) -> bool {
    value.match_indices("://").any(|(at, _)| {
        let rest = &value[at + 3..];
        let end = rest.find(['/', '?', '#', ' ', '\n', '"', '\'']).unwrap_or(rest.len());
        let user = rest[..end].rsplit_once('@').map(|(user, _)| user);
        user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
    })
}

/// Whether a text is one long word of letters and digits without any pattern.
fn is_random(value: &str) -> bool {
    let bytes = value.as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"+/=_-".contains(b);
    let has = |wanted: fn(&u8) -> bool| bytes.iter().any(wanted);
    if bytes.len() < RANDOM_MIN || !bytes.iter().all(plain) || !has(u8::is_ascii_digit) {
        return false;
    }
    let mut counts = [0usize; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let length = bytes.len() as f64;
    let bits: f64 = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = *count as f64 / length;
            -share * share.log2()
        })
        .sum();
    bits >= RANDOM_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name_or_value() {
        for (name, value) in [
            ("DB_PASSWORD", "x"),
            ("stripe_secret", "y"),
            ("A", "ghp_0123456789abcdefghij"),
            ("A", "postgres://me:pw@host/db"),
            ("A", "-----BEGIN RSA PRIVATE KEY-----\nMII"),
            ("A", "Zx81kQ0pLm29Vb3nTr7sWy64"),
        ] {
            assert!(of_variable(name, value).is_some(), "{name}={value}");
        }
    }

    #[test]
    fn ordinary_values_are_none() {
        for (name, value) in [
            ("NODE_ENV", "development"),
            ("PATH", "/usr/local/bin:/usr/bin"),
            ("URL", "https://example.com/a:b@c"),
            ("DB_PASSWORD", ""),
            ("LANG", "en_US.UTF-8"),
            ("VERSION", "1.2.3-beta.4+20261115"),
            ("NAME", "a-rather-long-name-of-a-service-2"),
            ("SK", "sk-short"),
        ] {
            assert_eq!(of_variable(name, value), None, "{name}={value}");
        }
    }
}
