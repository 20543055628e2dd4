//! The address of a database: what a URL says, as `libpq` understands it, with the password apart.
//!
//! - `postgres://`, `postgresql://`; a driver's suffix (`postgresql+asyncpg://`), `postgis://` and
//!   `jdbc:postgresql://` mean the same server.
//! - Parameters that `libpq` does not know (`pgbouncer=`, `connection_limit=`, `pool_timeout=` …) are
//!   for the application's driver and are dropped.
//! - Prisma's `schema=NAME` says where the application looks for its tables. It is remembered and not
//!   handed on: a capture is always of the whole database, since types, extensions and grants
//!   outside of one schema belong to it.
//! - `sslkey` must be a file: with `ENGINE:KEY`, libpq has OpenSSL load a library, of any path.
//! - `sslpassword` is refused: there is no way to give it that others on the machine do not see.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use rappel_types::config::after_postgres_scheme;

use super::service::{self, Place};

/// What must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The secret itself, for whoever must have it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Where a database is, and who asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Address {
    /// What `libpq` is told, in order, without secrets.
    parameters: Vec<(String, String)>,
    password: Option<Secret>,
    schema: Option<String>,
}

/// What `libpq` knows and may be told by others. Not among them: secrets, the names under which we
/// show up (`application_name`), and the encoding, which is the database's own.
const KNOWN: [&str; 38] = [
    "channel_binding",
    "connect_timeout",
    "dbname",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "max_protocol_version",
    "min_protocol_version",
    "options",
    "passfile",
    "port",
    "require_auth",
    "requirepeer",
    "requiressl",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// Why an address cannot be used, for people. It never repeats the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database's URL cannot be used: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl Address {
    /// Understands a URL.
    pub fn parse(url: &str) -> Result<Self, Malformed> {
        let rest =
            after_postgres_scheme(url).ok_or(Malformed("it does not begin with postgres://"))?;
        if url.contains('\0') {
            return Err(Malformed("it holds a null character"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut address = Self::default();
        // Passwords with an @ in them are often not escaped; a host never has one.
        let hosts = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => {
                let (user, password) = match credentials.split_once(':') {
                    Some((user, password)) => (user, Some(password)),
                    None => (credentials, None),
                };
                address.set("user", decode(user)?);
                if let Some(password) = password {
                    address.set_password(decode(password)?);
                }
                hosts
            }
            None => authority,
        };
        let (hosts, ports) = split_hosts(hosts)?;
        if hosts.iter().any(|host| !host.is_empty()) {
            address.set("host", hosts.join(","));
        }
        if ports.iter().any(|port| !port.is_empty()) {
            address.set("port", ports.join(","));
        }
        address.set("dbname", decode(path)?);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            address.set_parameter(&decode(name)?, decode(value)?)?;
        }
        Ok(address)
    }

    fn set_parameter(&mut self, name: &str, value: String) -> Result<(), Malformed> {
        match (name, value.as_str()) {
            ("password", _) => self.set_password(value),
            ("sslpassword", _) => {
                return Err(Malformed(
                    "sslpassword is not supported; use a key without a passphrase",
                ));
            }
            // Anything but a file: a library that OpenSSL would load. A stranger may have written this.
            ("sslkey", key) if key.contains(':') => {
                return Err(Malformed(
                    "sslkey must be a file; keys of OpenSSL engines are refused",
                ));
            }
            ("schema", _) => self.schema = Some(value).filter(|schema| !schema.is_empty()),
            // As drivers of Java and JavaScript have it.
            ("ssl", "true" | "1") | ("sslmode", "no-verify") => {
                self.set("sslmode", "require".to_owned());
            }
            _ if KNOWN.contains(&name) => self.set(name, value),
            _ => {}
        }
        Ok(())
    }

    /// The later of two counts, as with `libpq`.
    fn set(&mut self, name: &str, value: String) {
        self.parameters.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.parameters.push((name.to_owned(), value));
        }
    }

    fn set_password(&mut self, password: String) {
        self.password = Some(Secret(password)).filter(|Secret(password)| !password.is_empty());
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The database's name on its server, where the address says it.
    pub fn database(&self) -> Option<&str> {
        self.get("dbname").or_else(|| self.get("user"))
    }

    /// The schema in which the application looks for its tables, where Prisma's `schema=` says it.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The password.
    pub fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// Whether the address itself says where the server is.
    pub fn names_host(&self) -> bool {
        self.get("host").or(self.get("hostaddr")).is_some()
    }

    /// The same server and user, another database.
    #[must_use]
    pub fn with_database(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.set("dbname", name.to_owned());
        other
    }

    /// The same with another option for the server's process, like `-c name=value`.
    #[must_use]
    pub fn with_option(&self, option: &str) -> Self {
        let mut other = self.clone();
        let options = self.get("options").map(|options| format!("{options} {option}"));
        other.set("options", options.unwrap_or_else(|| option.to_owned()));
        other
    }

    /// A connection string for `libpq`, without the password. `defaults` are said where the
    /// address does not say otherwise.
    pub fn connection(&self, defaults: &[(&str, &str)]) -> String {
        let ours = defaults
            .iter()
            .filter(|(name, _)| self.get(name).is_none())
            .map(|(name, value)| (*name, *value));
        let theirs = self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut words = Vec::new();
        for (name, value) in theirs.chain(ours) {
            let value = value.replace('\\', "\\\\").replace('\'', "\\'");
            words.push(format!("{name}='{value}'"));
        }
        words.join(" ")
    }

    /// `text` without the password. One that is also a user's, a host's or a database's name is no
    /// secret, and a message without those would help nobody.
    pub fn cleaned(&self, text: &str) -> String {
        match &self.password {
            Some(Secret(password))
                if !self.parameters.iter().any(|(_, value)| value == password) =>
            {
                text.replace(password.as_str(), "***")
            }
            _ => text.to_owned(),
        }
    }

    /// Whether every server that this may reach is on this machine: a socket, a loopback address, or an
    /// address or name of the machine's own. A tunnel that ends elsewhere cannot be told.
    pub fn is_local(&self) -> bool {
        let place = match self.service() {
            Some(service) => match service::place(&service) {
                Some(place) => place,
                None => return false,
            },
            None => Place::default(),
        };
        // What the address says comes before what the service's file says.
        let hosts = self.get("hostaddr").or(place.hostaddr.as_deref());
        let hosts = hosts.or(self.get("host")).or(place.host.as_deref());
        hosts.is_none_or(|hosts| hosts.split(',').all(is_local_host))
    }

    /// Whether the password that the environment has for every server (`PGPASSWORD`) would be sent
    /// to another machine that the address names. A name that leads here now may lead elsewhere in
    /// a moment, so only what cannot be elsewhere counts as here.
    pub fn sends_password_away(&self) -> bool {
        let is_here = |host: &str| {
            let is_socket = host.is_empty() || host.starts_with(['/', '@']);
            is_socket
                || host.eq_ignore_ascii_case("localhost")
                || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        };
        let named = [self.get("host"), self.get("hostaddr")];
        let mut hosts = named.into_iter().flatten().flat_map(|hosts| hosts.split(','));
        let has_other = hosts.any(|host| !is_here(host));
        has_other && self.password.is_none() && std::env::var_os("PGPASSWORD").is_some()
    }

    /// The service whose file may say where the server is: the address' own, or the one of the environment, which
    /// counts where the address names no host.
    pub fn service(&self) -> Option<String> {
        let around = || std::env::var("PGSERVICE").ok().filter(|_| !self.names_host());
        self.get("service").map(str::to_owned).or_else(around)
    }
}

/// For people: who and where, never the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {}", self.database().unwrap_or("(default)"))?;
        if let Some(host) = self.get("host").or(self.get("hostaddr")) {
            write!(f, " on {host}")?;
        }
        match self.get("port") {
            Some(port) => write!(f, ", port {port}"),
            None => Ok(()),
        }
    }
}

/// Hosts and their ports, in order: both lists are as long as there are hosts.
fn split_hosts(text: &str) -> Result<(Vec<String>, Vec<String>), Malformed> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for one in text.split(',') {
        let (host, port) = match one.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) =
                    rest.split_once(']').ok_or(Malformed("an IPv6 address has no closing ]"))?;
                (host, rest.strip_prefix(':').unwrap_or_default())
            }
            None => one.rsplit_once(':').unwrap_or((one, "")),
        };
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Malformed(
                "a port is no number (is a character of the password not escaped?)",
            ));
        }
        hosts.push(decode(host)?);
        ports.push(port.to_owned());
    }
    Ok((hosts, ports))
}

/// Undoes percent-encoding. A `%` that begins no code stands for itself, as many drivers have it.
fn decode(text: &str) -> Result<String, Malformed> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| byte == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
        });
        decoded.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    if decoded.contains(&0) {
        return Err(Malformed("it holds a null character"));
    }
    String::from_utf8(decoded).map_err(|_| Malformed("it is not UTF-8"))
}

fn is_local_host(host: &str) -> bool {
    // Sockets: a path, or one in Linux's abstract namespace.
    if host.is_empty() || host.starts_with('/') || host.starts_with('@') {
        return true;
    }
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return is_local_address(address);
    }
    match (host, 0).to_socket_addrs() {
        Ok(found) => {
            let found: Vec<_> = found.collect();
            !found.is_empty() && found.iter().all(|address| is_local_address(address.ip()))
        }
        Err(_) => false,
    }
}

/// Only an address of the machine's own can be bound to.
fn is_local_address(address: IpAddr) -> bool {
    !address.is_unspecified() && (address.is_loopback() || UdpSocket::bind((address, 0)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(url: &str) -> String {
        Address::parse(url).unwrap().connection(&[])
    }

    #[test]
    fn what_urls_say() {
        let cases = [
            ("postgres://u@h/d", "user='u' host='h' dbname='d'"),
            ("postgresql://h:5433/d", "host='h' port='5433' dbname='d'"),
            ("postgresql:///d", "dbname='d'"),
            ("postgres://", ""),
            ("postgres://u:p%40ss@a:1,b:2/d", "user='u' host='a,b' port='1,2' dbname='d'"),
            ("postgres://a,b:2/d", "host='a,b' port=',2' dbname='d'"),
            ("postgres://u@[::1]:5433/d", "user='u' host='::1' port='5433' dbname='d'"),
            ("postgres://u@%2Frun%2Fpg/d", "user='u' host='/run/pg' dbname='d'"),
            ("postgres:///d?host=/run/pg&user=u", "dbname='d' host='/run/pg' user='u'"),
            ("postgres://h/it%27s%5C", r"host='h' dbname='it\'s\\'"),
            ("postgres://h/d?sslmode=require", "host='h' dbname='d' sslmode='require'"),
            ("postgres://h/d?sslmode=no-verify", "host='h' dbname='d' sslmode='require'"),
            (
                "jdbc:postgresql://h/d?ssl=true&user=u",
                "host='h' dbname='d' sslmode='require' user='u'",
            ),
            ("postgresql+asyncpg://u@h/d", "user='u' host='h' dbname='d'"),
            (
                "postgres://h/d?pgbouncer=true&connection_limit=1&pool_timeout=0&schema=app",
                "host='h' dbname='d'",
            ),
            ("postgres://h/d?dbname=e", "host='h' dbname='e'"),
        ];
        for (url, expected) in cases {
            assert_eq!(connection(url), expected, "{url}");
        }
    }

    #[test]
    fn options_are_added_to_those_of_the_url() {
        for (url, expected) in [
            ("postgres://h/d", "host='h' dbname='d' options='-c a=b'"),
            ("postgres://h/d?options=-c%20x%3Dy", "host='h' dbname='d' options='-c x=y -c a=b'"),
        ] {
            let address = Address::parse(url).unwrap().with_option("-c a=b");
            assert_eq!(address.connection(&[]), expected);
        }
    }

    #[test]
    fn the_password_is_apart_and_never_shown() {
        for url in [
            "postgres://u:s3cr%40t@h/d",
            "postgres://u:s3cr@t@h/d",
            "postgres://u@h/d?password=s3cr%40t",
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.password().unwrap().reveal(), "s3cr@t");
            let shown = format!("{address:?} {address} {}", address.connection(&[]));
            assert!(!shown.contains("s3cr"), "{shown}");
            assert_eq!(address.cleaned("no s3cr@t here"), "no *** here");
        }
        let same = Address::parse("postgres://postgres:postgres@h/d").unwrap();
        assert_eq!(same.cleaned("user postgres"), "user postgres");
    }

    #[test]
    fn prisma_names_a_schema() {
        let address = Address::parse("postgres://h/d?schema=app").unwrap();
        assert_eq!(address.schema(), Some("app"));
    }

    #[test]
    fn what_cannot_be_used_says_why_and_not_what() {
        for url in [
            "mysql://u:s3cret@h/d",
            "postgres://u:s3cret@[::1/d",
            "postgres://u:a:s3cret/h/d",
            "postgres://h/%ff",
            "postgres://h/%00",
            "postgres://h/d?sslpassword=s3cret",
            "postgres://h/d?sslkey=/proc/self/cwd/evil.so:s3cret",
        ] {
            let why = Address::parse(url).unwrap_err().to_string();
            assert!(!why.contains("s3cret"), "{why}");
        }
    }

    #[test]
    fn where_it_is() {
        for url in [
            "postgres:///d",
            "postgres://localhost/d",
            "postgres://127.0.0.2/d",
            "postgres://[::1]/d",
            "postgres://%2Frun/d",
            "postgres:///d?host=/run",
        ] {
            assert!(Address::parse(url).unwrap().is_local(), "{url}");
        }
        for url in [
            "postgres://192.0.2.1/d",
            "postgres://localhost,192.0.2.1/d",
            "postgres://localhost/d?hostaddr=192.0.2.1",
            "postgres:///d?service=production",
            "postgres://0.0.0.0/d",
            "postgres://no-such-host.invalid/d",
        ] {
            assert!(!Address::parse(url).unwrap().is_local(), "{url}");
        }
    }
}
