//! The listening socket, and a cap on what a stranger may send.
//!
//! Until somebody has logged in, a connection is read to a small limit and no further: neither a huge
//! frame nor endless headers cost memory. Nor does it stay: whoever sends no request, or a request that
//! does not end, is let go. Both limits are lifted by the login.

mod line;

use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use clawpen_wire::gateway::MAX_HANDSHAKE_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;

use line::Line;

/// Headers, a frame of the largest size, and room to see that a frame is too large.
const STRANGER_BYTES: usize = MAX_HANDSHAKE_BYTES * 2;
/// A request over HTTP has its own, larger cap: its body is read after its sender is known.
pub(crate) const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;

/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a connection stays whose sender never logged in.
const STRANGER_TIME: Duration = Duration::from_secs(60);

/// How much may still be read from a connection, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    bytes: Arc<AtomicUsize>,
    is_heard: Arc<AtomicBool>,
    is_unlimited: Arc<AtomicBool>,
}

impl Allowance {
    fn new() -> Self {
        Self {
            bytes: Arc::new(AtomicUsize::new(STRANGER_BYTES)),
            is_heard: Arc::default(),
            is_unlimited: Arc::default(),
        }
    }

    /// A whole head of a request has come.
    pub(crate) fn heard(&self) {
        self.is_heard.store(true, Ordering::Relaxed);
    }

    /// The other end is known: it may stay, and send what it likes, frame by frame.
    pub(crate) fn lift(&self) {
        self.bytes.store(usize::MAX, Ordering::Relaxed);
        self.stay();
    }

    /// The other end is known and is sent a stream: it may stay.
    pub(crate) fn stay(&self) {
        self.is_unlimited.store(true, Ordering::Relaxed);
    }

    /// One body of the size that HTTP requests may have.
    pub(crate) fn extend(&self) {
        self.bytes.store(MAX_BODY_BYTES + STRANGER_BYTES, Ordering::Relaxed);
    }
}

/// Who is on the other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) address: SocketAddr,
    pub(crate) allowance: Allowance,
}

impl Connected<IncomingStream<'_, Door>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        let address = *stream.remote_addr();
        Self { address, allowance: stream.io().allowance.clone() }
    }
}

/// A listening socket whose connections are counted, and spoken to over TLS if there is a certificate.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    pub(crate) acceptor: Option<TlsAcceptor>,
}

impl Listener for Door {
    type Io = Counted;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // Small answers must not wait for more.
                    let _ = stream.set_nodelay(true);
                    return (Counted::new(Line::new(stream, self.acceptor.as_ref())), address);
                }
                // Out of descriptors: whoever is connected goes on, new ones wait a little.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that is read no further than its allowance.
#[derive(Debug)]
pub(crate) struct Counted {
    stream: Line,
    allowance: Allowance,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Counted {
    fn new(stream: Line) -> Self {
        let timer = Box::pin(tokio::time::sleep(HEAD_TIME));
        Self { stream, allowance: Allowance::new(), since: Instant::now(), timer }
    }

    /// Says whether the time of this connection is over; else its reader is woken when it is.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        if self.allowance.is_unlimited.load(Ordering::Relaxed) {
            return false;
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let is_heard = self.allowance.is_heard.load(Ordering::Relaxed);
            let end = self.since + if is_heard { STRANGER_TIME } else { HEAD_TIME };
            if Instant::now() >= end {
                return true;
            }
            self.timer.as_mut().reset(end);
        }
        false
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let left = self.allowance.bytes.load(Ordering::Relaxed);
        if left == 0 {
            let why = "more was sent than somebody may who has not logged in";
            return Poll::Ready(Err(io::Error::other(why)));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if left != usize::MAX {
            let read = buffer.filled().len().saturating_sub(before);
            // Only this connection's reader takes away; a lift in between must stay.
            let taken = self.allowance.bytes.compare_exchange(
                left,
                left.saturating_sub(read),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            let _ = taken;
        }
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
