//! Requests that arrived whole and are not answered yet: a server that ends waits for these alone.
//!
//! A client that sent half a request and says no more has been promised nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

/// The requests of a server that are under way.
#[derive(Clone, Default)]
pub struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    /// Waits until nothing is under way for a moment, in which the last answer leaves its socket.
    pub async fn settle(&self) {
        const LOOK: Duration = Duration::from_millis(20);
        let mut calm = 0;
        while calm < 10 {
            tokio::time::sleep(LOOK).await;
            calm = if self.0.load(Ordering::Relaxed) == 0 { calm + 1 } else { 0 };
        }
    }
}

/// Counts a request from its last byte to the last byte of its answer.
pub async fn count(State(all): State<UnderWay>, request: Request, next: Next) -> Response {
    let one = Arc::new(One { all, is_counted: AtomicBool::new(false) });
    let response = next.run(request.map(|body| Counted::body(body, one.clone()))).await;
    response.map(|body| Counted::body(body, one))
}

/// One request.
struct One {
    all: UnderWay,
    is_counted: AtomicBool,
}

impl One {
    fn arrived(&self) {
        if !self.is_counted.swap(true, Ordering::Relaxed) {
            self.all.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for One {
    fn drop(&mut self) {
        if *self.is_counted.get_mut() {
            self.all.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The body of a request or of its answer.
struct Counted {
    body: Body,
    one: Arc<One>,
}

impl Counted {
    fn body(body: Body, one: Arc<One>) -> Body {
        if body.is_end_stream() {
            one.arrived();
        }
        Body::new(Self { body, one })
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.one.arrived();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
