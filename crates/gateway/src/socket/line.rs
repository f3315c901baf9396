//! What a connection is spoken over: plain TCP, or TLS on top of it.
//!
//! The handshake is made by whoever reads first, so that a slow one keeps nobody else waiting; the time
//! that a stranger has to send his first request covers it. On a port that speaks TLS, whoever sends plain
//! HTTP is told so and let go: nothing that he sent is looked at.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use clawpen_wire::gateway::TLS_ONLY;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// The first byte of everything that begins a TLS connection.
const HANDSHAKE: u8 = 22;
/// The head of the answer to somebody who came without TLS.
const PLAIN_HEAD: &str = "HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n";

/// What is left to send of that answer.
fn refusal(sent: usize) -> &'static [u8] {
    let head = PLAIN_HEAD.as_bytes().get(sent..).filter(|rest| !rest.is_empty());
    let body = || TLS_ONLY.as_bytes().get(sent.saturating_sub(PLAIN_HEAD.len())..);
    head.or_else(body).unwrap_or_default()
}

/// A connection, at some point of its beginning.
pub(super) enum Line {
    Plain(TcpStream),
    /// Nothing was read yet.
    New(TcpStream, TlsAcceptor),
    Greeting(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
    /// Plain HTTP came; so much of the answer is sent.
    Refusing(TcpStream, usize),
    Over,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::New(..) => "New",
            Self::Greeting(_) => "Greeting",
            Self::Tls(_) => "Tls",
            Self::Refusing(..) => "Refusing",
            Self::Over => "Over",
        })
    }
}

impl Line {
    pub(super) fn new(stream: TcpStream, acceptor: Option<&TlsAcceptor>) -> Self {
        match acceptor {
            Some(acceptor) => Self::New(stream, acceptor.clone()),
            None => Self::Plain(stream),
        }
    }

    /// Goes on until there is something to read from or to write to.
    fn settle(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self {
                Self::Plain(_) | Self::Tls(_) | Self::Over => return Poll::Ready(Ok(())),
                Self::New(stream, _) => {
                    let mut first = [0_u8; 1];
                    let mut buffer = ReadBuf::new(&mut first);
                    let count = ready!(stream.poll_peek(context, &mut buffer))?;
                    self.begin(if count == 0 { None } else { first.first().copied() });
                }
                Self::Greeting(accept) => {
                    let stream = ready!(Pin::new(accept.as_mut()).poll(context));
                    *self = match stream {
                        Ok(stream) => Self::Tls(Box::new(stream)),
                        Err(error) => {
                            *self = Self::Over;
                            return Poll::Ready(Err(error));
                        }
                    };
                }
                Self::Refusing(stream, sent) => {
                    let rest = refusal(*sent);
                    if rest.is_empty() {
                        discard(stream);
                        ready!(Pin::new(stream).poll_shutdown(context))?;
                        *self = Self::Over;
                    } else {
                        *sent += ready!(Pin::new(stream).poll_write(context, rest))?;
                    }
                }
            }
        }
    }

    /// Decides by the first byte how a new connection goes on.
    fn begin(&mut self, first: Option<u8>) {
        *self = match (std::mem::replace(self, Self::Over), first) {
            (Self::New(stream, acceptor), Some(HANDSHAKE)) => {
                Self::Greeting(Box::new(acceptor.accept(stream)))
            }
            (Self::New(stream, _), Some(_)) => Self::Refusing(stream, 0),
            (Self::New(..), None) => Self::Over,
            (other, _) => other,
        };
    }
}

/// Reads away what has come: closing with unread bytes would take the answer back.
fn discard(stream: &TcpStream) {
    let mut waste = [0_u8; 4096];
    while matches!(stream.try_read(&mut waste), Ok(count) if count > 0) {}
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.settle(context))?;
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            // The end: nothing more is read.
            Self::New(..) | Self::Greeting(_) | Self::Refusing(..) | Self::Over => {
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.settle(context))?;
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
            Self::New(..) | Self::Greeting(_) | Self::Refusing(..) | Self::Over => {
                Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            Self::New(..) | Self::Greeting(_) | Self::Refusing(..) | Self::Over => {
                Poll::Ready(Ok(()))
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Self::New(stream, _) | Self::Refusing(stream, _) => {
                Pin::new(stream).poll_shutdown(context)
            }
            Self::Greeting(_) | Self::Over => Poll::Ready(Ok(())),
        }
    }
}
