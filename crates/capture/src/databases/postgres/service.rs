//! Where a service of `libpq` is: its file says the host, and only that tells whether the server is on this machine.

use std::path::PathBuf;

/// What a service file says of a server's place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Its `host`.
    pub host: Option<String>,
    /// Its `hostaddr`.
    pub hostaddr: Option<String>,
}

/// Where Debian keeps the file of the whole system; others compile it in elsewhere, and then nobody can tell.
const SYSTEM: &str = "/etc/postgresql-common";
const FILE: &str = "pg_service.conf";

/// Where a service is; `None` where no file that we know says it.
pub fn place(name: &str) -> Option<Place> {
    files().into_iter().find_map(|file| said(&rappel_store::held::read_to_string(file).ok()?, name))
}

/// The files that `libpq` looks into, in its order.
fn files() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let users = variable("PGSERVICEFILE")
        .or_else(|| variable("HOME").map(|home| home.join(".pg_service.conf")));
    let system = variable("PGSYSCONFDIR").unwrap_or_else(|| SYSTEM.into()).join(FILE);
    users.into_iter().chain([system]).collect()
}

fn said(text: &str, name: &str) -> Option<Place> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| *line == format!("[{name}]"))?;
    let mut place = Place::default();
    for line in lines.take_while(|line| !line.starts_with('[')) {
        match line.split_once('=') {
            Some(("host", value)) => place.host = Some(value.to_owned()),
            Some(("hostaddr", value)) => place.hostaddr = Some(value.to_owned()),
            // It may lead anywhere.
            _ if line.starts_with("ldap:") => return None,
            _ => {}
        }
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says() {
        let text = "# all\n[other]\nhost=far\n [dev] \nuser=me\nhost=/run/pg\n\n[next]\nhostaddr=::1\n\
                    [ldap]\nldap://there/o=pg?x\n[none]\n";
        let host = |host: &str| Place { host: Some(host.to_owned()), hostaddr: None };
        assert_eq!(said(text, "dev"), Some(host("/run/pg")));
        let next = Place { host: None, hostaddr: Some("::1".to_owned()) };
        assert_eq!(said(text, "next"), Some(next));
        assert_eq!(said(text, "ldap"), None);
        assert_eq!(said(text, "none"), Some(Place::default()));
        assert_eq!(said(text, "absent"), None);
    }
}
