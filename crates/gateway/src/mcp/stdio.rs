//! MCP over standard input and output: one client, the one that started us.

use std::io;

use rmcp::ServiceExt as _;
use rmcp::service::RoleServer;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Server;

/// A longer message is dropped before it is kept.
const LONGEST_LINE: usize = 16 << 20;

/// Why the door is shut.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    #[error("the client did not begin as MCP says")]
    Begin(#[source] Box<rmcp::service::ServerInitializeError>),
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
}

/// One message a line, over any two streams; a line that is too long or no message is passed over.
pub fn transport<R, W>(read: R, write: W) -> AsyncRwTransport<RoleServer, R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    AsyncRwTransport::new_server(read, write).with_max_line_length(LONGEST_LINE)
}

/// Serves until the client leaves or we are told to end. Calls that run then are taken back.
pub async fn serve(server: Server) -> Result<(), StdioError> {
    let (read, write) = stdio_pipes();
    let transport = transport(read, write);
    let ended = super::http::told_to_end().map_err(StdioError::Signals)?;
    let service = tokio::select! {
        service = server.serve(transport) => match service {
            Ok(service) => service,
            // It left before it said anything, as a client that only looks whether we start.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(StdioError::Begin(Box::new(error))),
        },
        () = ended => return Ok(()),
    };
    let cancel = service.cancellation_token();
    let ended = super::http::told_to_end().map_err(StdioError::Signals)?;
    let waiting = service.waiting();
    tokio::pin!(waiting);
    tokio::select! {
        _quit = &mut waiting => {}
        () = ended => {
            cancel.cancel();
            let _quit = waiting.await;
        }
    }
    Ok(())
}
