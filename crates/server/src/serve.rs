//! The server's life: sockets, connections, and a calm end.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rappel::Home;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_service::Service;

use crate::access::Rules;
use crate::app::{App, FindInstalled};
use crate::problem::Problem;
use crate::routes::about::ServerAnswer;
use crate::under_way::{self, UnderWay};
use crate::{assets, describe, peer, routes};

/// So many connections at once; more wait until one ends.
const CONNECTIONS_MAX: usize = 2_048;
/// The head of a request has to arrive within this time.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// When the server ends, what is under way gets so long.
const END_TIME: Duration = Duration::from_secs(10);
/// So many operations of the engine at once; more wait.
const THREADS: usize = 64;

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The address to listen on; `None` is this machine alone, by IPv4 and IPv6.
    pub host: Option<IpAddr>,
    /// The port; 0 is a free one.
    pub port: u16,
    /// Names that a `Host` may have besides those of this machine's loopback.
    pub allow_hosts: Vec<String>,
}

/// A server that listens and does not answer yet.
pub struct Server {
    listeners: Vec<std::net::TcpListener>,
    app: App,
    rules: Rules,
    address: SocketAddr,
    token: String,
}

/// What came of an attempt to listen.
pub enum Bound {
    /// It listens.
    Here(Box<Server>),
    /// A server of the same home has the port already.
    Already(SocketAddr),
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Something else has the port.
    #[error("port {port} is taken by {by}")]
    Taken {
        /// The port.
        port: u16,
        /// Who has it.
        by: String,
    },
    /// The system refused.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] rappel::Error),
    /// The runtime could not be started, or broke.
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
}

impl Server {
    /// Listens, so that requests are answered from the moment on at which the URL is known.
    pub fn bind(
        home: Home,
        installed: FindInstalled,
        options: &ServeOptions,
    ) -> Result<Bound, ServeError> {
        let token = home.token()?;
        let first = options.host.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let address = SocketAddr::new(first, options.port);
        let listener = match std::net::TcpListener::bind(address) {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return match who_is_there(address) {
                    Some(server) if is_same_home(&server, &home) => Ok(Bound::Already(address)),
                    found => Err(taken(address, found)),
                };
            }
            Err(source) => return Err(ServeError::Listen { address, source }),
        };
        let address = listener.local_addr()?;
        let mut listeners = vec![listener];
        if options.host.is_none() {
            let other = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port());
            match std::net::TcpListener::bind(other) {
                Ok(listener) => listeners.push(listener),
                // A browser asks there first for `localhost`.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return match who_is_there(other) {
                        Some(server) if is_same_home(&server, &home) => Ok(Bound::Already(other)),
                        found => Err(taken(other, found)),
                    };
                }
                Err(error) => tracing::info!(%error, "no IPv6 here"),
            }
        }
        let mut hosts = options.allow_hosts.clone();
        hosts.extend(options.host.map(|host| match host {
            IpAddr::V4(host) => host.to_string(),
            IpAddr::V6(host) => format!("[{host}]"),
        }));
        let any_address = options.host.is_some_and(|host| host.is_unspecified());
        let user = rustix::process::geteuid().as_raw();
        let rules = Rules { user, hosts, any_address };
        let app = App::new(home, installed);
        Ok(Bound::Here(Box::new(Self { listeners, app, rules, address, token })))
    }

    /// Where it listens. One that listens on every address is called by the machine's own.
    pub fn address(&self) -> SocketAddr {
        match self.address.ip().is_unspecified() {
            true => {
                SocketAddr::new(own_address().unwrap_or(self.address.ip()), self.address.port())
            }
            false => self.address,
        }
    }

    /// The token, for callers that need one.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Serves until the process is asked to end. What is under way is finished first, for a while.
    pub fn run(self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(THREADS)
            .thread_name("rappel-serve")
            .enable_all()
            .build()?;
        let served = runtime.block_on(async { self.until(asked_to_end()).await });
        // A thread that blocks in the engine is not waited for: nothing of it counts until it is
        // committed.
        runtime.shutdown_timeout(Duration::from_millis(100));
        served
    }

    /// Serves until `end` is ready.
    pub async fn until(self, end: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Self { listeners, app, rules, .. } = self;
        let under_way = UnderWay::default();
        let router = describe::router(routes::all())
            .fallback(async || {
                Problem::unknown("there is no such route").hint("GET /api/openapi.json")
            })
            .method_not_allowed_fallback(async || {
                let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
                Problem::of(status, "usage", "this route does not take that method")
            })
            .layer(middleware::from_fn_with_state(Arc::new((rules, app.home.clone())), guard))
            .layer(middleware::from_fn_with_state(under_way.clone(), under_way::count))
            .with_state(app.clone());
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let graceful = GracefulShutdown::new();
        let mut sockets = Vec::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            sockets.push(TcpListener::from_std(listener)?);
        }
        let mut end = pin!(end);
        loop {
            let room = room.clone();
            let accepted = tokio::select! {
                () = &mut end => break,
                accepted = next(&sockets, room) => accepted,
            };
            let (stream, there, permit) = match accepted {
                Ok(accepted) => accepted,
                // Too many open files, or a caller that is gone already: the next one may do.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (watcher, router) = (graceful.watcher(), router.clone());
            tokio::spawn(async move {
                let _permit = permit;
                let connection = serve_one(stream, there, router).await;
                if let Err(error) = watcher.watch(connection).await {
                    tracing::debug!(%error, "a connection broke");
                }
            });
        }
        drop(sockets);
        app.jobs.cancel_all();
        app.hub.close();
        let ended = tokio::time::timeout(END_TIME, async {
            tokio::select! { () = graceful.shutdown() => {}, () = under_way.settle() => {} }
            while !app.jobs.are_done() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if ended.await.is_err() {
            tracing::warn!("some requests were not answered before the end");
        }
        Ok(())
    }
}

/// Waits until a signal asks the process to end.
pub async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}

type Accepted = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

/// The next connection, once there is room for it.
async fn next(sockets: &[TcpListener], room: Arc<Semaphore>) -> io::Result<Accepted> {
    let permit = room.acquire_owned().await.map_err(io::Error::other)?;
    let (stream, there) = match sockets {
        [one] => one.accept().await?,
        [one, other] => {
            tokio::select! { found = one.accept() => found?, found = other.accept() => found? }
        }
        _ => std::future::pending().await,
    };
    Ok((stream, there, permit))
}

/// One connection. Who is at its other end is looked up once, on a thread of its own: on a machine
/// with many sockets the kernel's table is long.
async fn serve_one(
    stream: TcpStream,
    there: SocketAddr,
    router: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<WithPeer>> {
    let here = stream.local_addr().ok();
    let user = move || here.and_then(|here| peer::user_of(there, here));
    let user = tokio::task::spawn_blocking(user).await.ok().flatten();
    let service = TowerToHyperService::new(WithPeer { router, peer: Peer { user } });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service)
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
struct Peer {
    /// Its user; `None` where the platform does not tell, or it is another machine.
    user: Option<u32>,
}

/// The router, for one connection.
#[derive(Clone)]
struct WithPeer {
    router: Router,
    peer: Peer,
}

impl Service<hyper::Request<hyper::body::Incoming>> for WithPeer {
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = <Router as Service<hyper::Request<hyper::body::Incoming>>>::Future;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: hyper::Request<hyper::body::Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.router.call(request)
    }
}

/// Answers only those who may call.
async fn guard(State(gate): State<Arc<(Rules, Home)>>, request: Request, next: Next) -> Response {
    let (rules, home) = &*gate;
    let user = request.extensions().get::<Peer>().and_then(|peer| peer.user);
    let checked = match assets::is_page(request.uri().path()) {
        true => rules.check_page(request.headers()),
        // The user may replace the token while the server runs.
        false => rules.check(request.headers(), user, || home.present_token()),
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => Problem::from(refusal).into_response(),
    }
}

/// The address that this machine has towards others. Nothing is sent to find it out.
fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address that documentation uses, and nobody has.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The server of Rappel at an address, if one answers there.
fn who_is_there(address: SocketAddr) -> Option<ServerAnswer> {
    const LIMIT: Duration = Duration::from_secs(2);
    let mut stream = std::net::TcpStream::connect_timeout(&address, LIMIT).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    stream.set_write_timeout(Some(LIMIT)).ok()?;
    let request = "GET /api/server HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(64 << 10).read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok().filter(|answer: &ServerAnswer| answer.program == "rappel")
}

fn is_same_home(server: &ServerAnswer, home: &Home) -> bool {
    let real = |path: &std::path::Path| path.canonicalize().ok();
    let theirs = real(server.home.as_ref());
    theirs.is_some() && theirs == real(home.folder())
}

fn taken(address: SocketAddr, server: Option<ServerAnswer>) -> ServeError {
    let by = match server {
        Some(server) => format!("the Rappel server of another home ({})", server.home),
        None => peer::program_at(address).unwrap_or_else(|| "another program".into()),
    };
    ServeError::Taken { port: address.port(), by }
}
