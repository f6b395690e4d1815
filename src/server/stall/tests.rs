use tokio::io::AsyncWriteExt as _;

use super::*;

const LONGEST: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_socket_that_takes_nothing_is_stalled_until_it_does() {
    let pace = Pace::new();
    let (ours, mut theirs) = tokio::io::duplex(8);
    let mut socket = Watched::new(ours, Arc::clone(&pace));
    socket.write_all(b"12345678").await.unwrap();
    let waiting = tokio::spawn(async move { socket.write_all(b"9").await });
    tokio::time::advance(LONGEST).await;
    assert!(!pace.is_stalled(LONGEST), "it was asked to take something only now");
    tokio::task::yield_now().await;
    tokio::time::advance(LONGEST.saturating_sub(Duration::from_millis(1))).await;
    assert!(!pace.is_stalled(LONGEST));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(pace.is_stalled(LONGEST));
    let mut taken = [0; 8];
    tokio::io::AsyncReadExt::read_exact(&mut theirs, &mut taken).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(!pace.is_stalled(LONGEST));
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_stalled_only_while_it_has_been_given_something() {
    let pace = Pace::new();
    let reader = pace.reader();
    tokio::time::advance(LONGEST * 2).await;
    assert!(!pace.is_stalled(LONGEST), "nothing was to be taken");
    reader.given();
    tokio::time::advance(LONGEST).await;
    assert!(pace.is_stalled(LONGEST));
    reader.caught_up();
    assert!(!pace.is_stalled(LONGEST));
    reader.given();
    drop(reader);
    tokio::time::advance(LONGEST).await;
    assert!(!pace.is_stalled(LONGEST), "a stream that is gone holds up nobody");
}

/// A stream keeps its connection's pace, never the other way round.
#[tokio::test]
async fn nothing_is_left_of_a_connection_and_its_streams() {
    let pace = Pace::new();
    let (reader, left) = (pace.reader(), Arc::downgrade(&pace));
    drop(pace);
    assert!(left.upgrade().is_some());
    drop(reader);
    assert!(left.upgrade().is_none());
}
