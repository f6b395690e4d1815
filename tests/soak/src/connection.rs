//! A client's connection to the gateway.

use std::cell::RefCell;
use std::future::Future as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Sleep;

/// Addresses that clients come from. Each has about 28,000 ports, and a port is not free again for a
/// minute after its connection.
const SOURCES: u64 = 64;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;
/// The window of a client that reads slowly, in bytes: the gateway soon notices.
const SMALL_WINDOW_BYTES: u32 = 4096;

thread_local! {
    /// One for all connections, which would take a gigabyte otherwise.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

#[derive(Debug)]
pub(crate) struct Connection(TcpStream);

/// What there is to read.
#[derive(Debug)]
pub(crate) enum Read<T> {
    /// What the reader made of some bytes.
    Bytes(T),
    /// The gateway has closed the connection, or it broke.
    End,
    /// It is time for something else.
    Due,
}

impl Connection {
    /// Connects from one of many addresses.
    pub(crate) async fn open(
        gateway: SocketAddr,
        client: u64,
        has_small_window: bool,
    ) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if has_small_window {
            socket.set_recv_buffer_size(SMALL_WINDOW_BYTES)?;
        }
        let last = u8::try_from(2 + client % SOURCES).unwrap_or(2);
        socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
        let stream = socket.connect(gateway).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Waits for bytes until `due`, and has `reader` read them.
    pub(crate) async fn read<T>(
        &self,
        mut due: Pin<&mut Sleep>,
        reader: impl FnOnce(&[u8]) -> T,
    ) -> Read<T> {
        let mut reader = Some(reader);
        std::future::poll_fn(|cx| {
            if due.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Read::Due);
            }
            loop {
                if ready!(self.0.poll_read_ready(cx)).is_err() {
                    return Poll::Ready(Read::End);
                }
                let read = BUFFER.with_borrow_mut(|buffer| {
                    let count = self.0.try_read(buffer)?;
                    let reader = reader.take().filter(|_| count > 0);
                    Ok::<_, io::Error>(reader.map(|reader| reader(&buffer[..count])))
                });
                match read {
                    Ok(read) => return Poll::Ready(read.map_or(Read::End, Read::Bytes)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return Poll::Ready(Read::End),
                }
            }
        })
        .await
    }
}
