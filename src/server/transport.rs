//! What carries a connection: TCP, or TLS over TCP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::socket::Socket;
use super::stall::{Pace, Watched};
use crate::limits;

/// An open connection.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(Watched<Socket>),
    Tls(Box<TlsStream<Watched<Socket>>>),
}

impl Transport {
    /// A connection without TLS.
    ///
    /// # Errors
    /// If it is gone already.
    pub(super) fn plain(socket: TcpStream) -> io::Result<Self> {
        set_options(&socket)?;
        Ok(Self::Plain(Watched { socket: Socket::new(socket), pace: Pace::new() }))
    }

    /// A connection with TLS. Waits for the handshake.
    ///
    /// # Errors
    /// If the client leaves or the handshake fails.
    pub(super) async fn accept_tls(socket: TcpStream, acceptor: &TlsAcceptor) -> io::Result<Self> {
        set_options(&socket)?;
        let watched = Watched { socket: Socket::under_tls(socket), pace: Pace::new() };
        let stream = acceptor.accept(watched).await?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// The socket underneath, and its pace.
    pub(super) fn watched(&self) -> &Watched<Socket> {
        match self {
            Self::Plain(watched) => watched,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Sends without delay, and keeps little unsent data in the kernel, so that a slow client's progress shows. There is no
/// `TCP_USER_TIMEOUT`: with one of 60 s, Linux also cut clients that had only paused for less, as the soak showed.
fn set_options(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(limits::server::UNSENT_BYTES_MAX)?;
    Ok(())
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsConnector;

    use super::*;

    /// Both ends of TLS on a certificate of its own.
    fn tls() -> (TlsAcceptor, TlsConnector) {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).unwrap();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)))
    }

    /// rustls keeps what its socket does not take. A client that reads nothing has to show all the same.
    #[tokio::test]
    async fn under_tls_a_connection_is_blocked_as_soon_as_its_socket_is() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (acceptor, connector) = tls();
        let connect = async {
            let socket = TcpStream::connect(address).await.unwrap();
            connector.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap()
        };
        let accept = async {
            let (socket, _) = listener.accept().await.unwrap();
            Transport::accept_tls(socket, &acceptor).await.unwrap()
        };
        let (_client, mut transport) = tokio::join!(connect, accept);
        let is_taken = |transport: &mut Transport, cx: &mut Context<'_>| {
            let written = Pin::new(&mut *transport).poll_write(cx, &[b'x'; 1024]);
            assert!(written.is_ready(), "rustls has room");
            Pin::new(transport).poll_flush(cx).is_ready()
        };
        poll_fn(|cx| {
            while is_taken(&mut transport, cx) {
                assert!(!transport.watched().pace.is_blocked());
            }
            Poll::Ready(())
        })
        .await;
        assert!(transport.watched().pace.is_blocked());
    }
}
