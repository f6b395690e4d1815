use hyper::body::{Buf as _, Bytes};
use hyper::rt::Executor as _;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{advance, timeout};

use super::*;

const LONGEST: Duration = Duration::from_secs(30);
const ALMOST: Duration = Duration::from_millis(29_999);
const TICK: Duration = Duration::from_millis(1);

/// How long it takes to find that a connection is stalled; `None` if that takes more than ten
/// times the longest allowed.
async fn stalled_after(pace: &Pace) -> Option<Duration> {
    let begun = Instant::now();
    timeout(LONGEST * 10, pace.stalled(LONGEST)).await.ok()?;
    Some(begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_socket_is_stalled_while_it_takes_nothing() {
    let pace = Pace::new();
    let (ours, mut theirs) = tokio::io::duplex(8);
    let mut socket = Watched { socket: ours, pace: Arc::clone(&pace) };
    socket.write_all(b"12345678").await.unwrap();
    assert_eq!(stalled_after(&pace).await, None, "it was asked to take nothing more");
    let waiting = tokio::spawn(async move { socket.write_all(b"9").await });
    tokio::task::yield_now().await;
    assert_eq!(stalled_after(&pace).await, Some(LONGEST));
    let mut taken = [0; 8];
    tokio::io::AsyncReadExt::read_exact(&mut theirs, &mut taken).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(stalled_after(&pace).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_takes_a_byte_now_and_then_moves() {
    let pace = Pace::new();
    let (ours, mut theirs) = tokio::io::duplex(1);
    let mut socket = Watched { socket: ours, pace: Arc::clone(&pace) };
    let writing = tokio::spawn(async move { socket.write_all(&[b'x'; 100]).await });
    let reading = async {
        for _ in 0..100 {
            advance(ALMOST).await;
            tokio::io::AsyncReadExt::read_u8(&mut theirs).await.unwrap();
        }
    };
    tokio::select! {
        () = pace.stalled(LONGEST) => panic!("it moved all the time"),
        () = reading => {}
    }
    writing.await.unwrap().unwrap();
}

/// The future of a stream that takes a piece and then waits.
#[derive(Debug)]
struct Stream {
    piece: Piece,
    flow: Arc<Flow>,
    /// Dropped with the future.
    alive: Arc<()>,
}

/// A stream on a connection of `pace` that was given `bytes` bytes.
async fn stream(pace: &Arc<Pace>, bytes: usize) -> Stream {
    let (sender, given) = tokio::sync::oneshot::channel();
    let alive = Arc::new(());
    let kept = Arc::clone(&alive);
    StreamExecutor::new(Arc::clone(pace), Streams::new(), LONGEST).execute(async move {
        let flow = Flow::current().unwrap();
        let piece = Piece::new(Bytes::from(vec![0; bytes]), Some(&flow));
        sender.send((piece, flow)).unwrap();
        std::future::pending::<()>().await;
        drop(kept);
    });
    let (piece, flow) = given.await.unwrap();
    Stream { piece, flow, alive }
}

impl Stream {
    async fn is_served_after(&self, time: Duration) -> bool {
        timeout(time, std::future::pending::<()>()).await.unwrap_err();
        tokio::task::yield_now().await;
        Arc::strong_count(&self.alive) > 1
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_takes_nothing_is_ended() {
    let stream = stream(&Pace::new(), 10).await;
    assert!(stream.is_served_after(ALMOST).await);
    assert!(!stream.is_served_after(TICK * 2).await);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_takes_a_byte_now_and_then_is_not() {
    let mut stream = stream(&Pace::new(), 10).await;
    for _ in 0..9 {
        assert!(stream.is_served_after(ALMOST).await);
        stream.piece.advance(1);
    }
    assert!(!stream.flow.is_taken());
    stream.piece.advance(1);
    assert!(stream.flow.is_taken());
    assert!(stream.is_served_after(LONGEST * 10).await, "nothing is left to take");
}

/// What holds up all streams is not the fault of one of them.
#[tokio::test(start_paused = true)]
async fn a_stream_is_not_ended_for_a_slow_socket() {
    let pace = Pace::new();
    let stream = stream(&pace, 10).await;
    for _ in 0..3 {
        let _ = pace.note(Poll::<()>::Pending);
        assert!(stream.is_served_after(ALMOST).await);
        let _ = pace.note(Poll::Ready(()));
    }
    assert!(!stream.is_served_after(LONGEST + TICK).await);
}

#[tokio::test]
async fn there_is_no_flow_outside_a_stream() {
    assert!(Flow::current().is_none());
    let mut piece = Piece::new(Bytes::from_static(b"abc"), None);
    piece.advance(1);
    assert_eq!(piece.chunk(), b"bc");
}
