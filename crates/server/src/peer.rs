//! Who is at the other end of a connection, or listens somewhere: as this machine's kernel has it.

use std::net::{IpAddr, SocketAddr};

/// The user whose socket is `there`, connected to `here`. The kernel lists every socket of this
/// machine with its owner; a socket of another machine is not among them.
pub fn user_of(there: SocketAddr, here: SocketAddr) -> Option<u32> {
    let table = if there.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    owner(&std::fs::read_to_string(table).ok()?, there, here)
}

/// The owner of the socket from `local` to `remote` in a table of the kernel.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    /// A socket that is being taken down no longer has its owner.
    const ESTABLISHED: &str = "01";
    let (local, remote) = (written(local), written(remote));
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_it = words.next()? == local && words.next()? == remote;
        let state = words.next()?;
        (is_it && state == ESTABLISHED).then(|| words.nth(3)?.parse().ok()).flatten()
    })
}

/// The program that listens at an address of this machine, as far as this user may know:
/// `nginx (process 1234)`.
pub fn program_at(address: SocketAddr) -> Option<String> {
    let socket = format!("socket:[{}]", listening_inode(address)?);
    let is_it = |handle: &std::fs::DirEntry| {
        std::fs::read_link(handle.path()).is_ok_and(|link| link.as_os_str() == socket.as_str())
    };
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        // `self` and the like are other names of processes that have a number.
        process.file_name().to_str()?.parse::<u32>().ok()?;
        let handles = std::fs::read_dir(process.path().join("fd")).ok()?;
        handles.flatten().find(is_it)?;
        let name = std::fs::read_to_string(process.path().join("comm")).ok()?;
        Some(format!("{} (process {})", name.trim(), process.file_name().to_string_lossy()))
    })
}

/// The inode of the socket that listens at an address.
fn listening_inode(address: SocketAddr) -> Option<u64> {
    const LISTENING: &str = "0A";
    let table = if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let any = SocketAddr::new(
        match address.ip() {
            IpAddr::V4(_) => IpAddr::from([0u8; 4]),
            IpAddr::V6(_) => IpAddr::from([0u8; 16]),
        },
        address.port(),
    );
    let names = [written(address), written(any)];
    std::fs::read_to_string(table).ok()?.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it = names.iter().any(|name| words.get(1) == Some(&name.as_str()));
        let inode = words.get(9)?.parse().ok()?;
        (is_it && words.get(3) == Some(&LISTENING)).then_some(inode)
    })
}

/// An address as the kernel's tables have it: words of the machine's byte order in base 16.
fn written(address: SocketAddr) -> String {
    let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
    let host = match address.ip() {
        IpAddr::V4(ip) => word(ip.octets()),
        IpAddr::V6(ip) => {
            let octets = ip.octets();
            let words = octets.as_chunks::<4>().0;
            words.iter().map(|bytes| word(*bytes)).collect()
        }
    };
    format!("{host}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_names_the_owner_of_a_connection() {
        let me = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let here = listener.local_addr().unwrap();
            let client = std::net::TcpStream::connect(here).unwrap();
            let (_accepted, there) = listener.accept().unwrap();
            assert_eq!(user_of(there, here), Some(me), "{address}");
            let listens = program_at(here).unwrap();
            assert!(listens.contains(&format!("(process {})", std::process::id())), "{listens}");
            // Nobody is connected from there.
            let mut elsewhere = there;
            elsewhere.set_port(there.port().wrapping_add(1));
            assert_eq!(user_of(elsewhere, here), None);
            drop(client);
        }
    }

    #[test]
    fn a_line_counts_only_as_a_whole() {
        let table = "  sl  local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode\n\
             0: 0100007F:1F90 0100007F:E01E 01 00000000:00000000 00:00000000 00000000  1000 0 77 1\n\
             1: 0100007F:E01E 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0 0 0 1\n";
        let server: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let client: SocketAddr = "127.0.0.1:57374".parse().unwrap();
        assert_eq!(owner(table, server, client), Some(1000));
        assert_eq!(owner(table, client, server), None, "that one is being taken down");
        assert_eq!(owner("", server, client), None);
    }
}
