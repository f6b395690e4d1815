//! Requests and answers, once there is a connection.

use super::*;

fn body_of(bytes: usize) -> Vec<u8> {
    vec![b'x'; bytes]
}

#[tokio::test]
async fn a_request_has_the_callers_fields_and_no_others() {
    let server = Server::once([Answer::json("{}")]).await;
    let mut request = request(Method::POST, &server.url("/a/b?c=d#e"));
    *request.body_mut() = "{}".into();
    request.headers_mut().insert("x-key", HeaderValue::from_static("secret"));
    request.headers_mut().insert("host", HeaderValue::from_static("elsewhere"));
    read(client(loopback()).send(request).await.unwrap()).await;
    let expected = format!(
        "POST /a/b?c=d HTTP/1.1\r\nx-key: secret\r\nhost: {}\r\ncontent-length: 2\r\n\r\n{{}}",
        server.address
    );
    assert_eq!(server.requests(), [expected]);
}

#[tokio::test]
async fn connections_are_reused() {
    let server = Server::once([Answer::json("1"), Answer::json("2")]).await;
    let client = client(loopback());
    for expected in ["1", "2"] {
        let response = get(&client, &server.url("/")).await.unwrap();
        assert_eq!(read(response).await.1, expected);
        // The connection goes back to the pool in a task of its own.
        tokio::task::yield_now().await;
    }
    assert_eq!(server.connections(), 1);
}

/// The server reads the second request and closes the connection without an answer.
#[tokio::test]
async fn a_request_is_not_sent_twice_if_a_reused_connection_breaks() {
    for then in [Then::Close, Then::Reset] {
        let first = vec![Answer::json("1"), Answer::new("", then)];
        let server = Server::start(vec![first, vec![Answer::json("2")]]).await;
        let client = client(loopback());
        read(get(&client, &server.url("/")).await.unwrap()).await;
        tokio::task::yield_now().await;
        let error = client.send(request(Method::POST, &server.url("/"))).await.unwrap_err();
        assert!(matches!(error, OutboundError::Broken { .. }), "{error:?}");
        assert!(!error.is_unsent());
        assert_eq!((server.connections(), server.requests().len()), (1, 2));
    }
}

/// The server closes idle connections while the next request is on its way.
#[tokio::test]
async fn no_request_arrives_twice_on_connections_that_close_while_idle() {
    const REQUESTS: usize = 100;
    let script = (0..REQUESTS)
        .map(|_| vec![Answer::new("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Then::Close)]);
    let server = Server::start(script.collect()).await;
    let client = client(loopback());
    for number in 0..REQUESTS {
        let url = server.url(&format!("/{number}/"));
        if let Ok(response) = client.send(request(Method::POST, &url)).await {
            read(response).await;
        }
    }
    let mut requests = server.requests();
    let received = requests.len();
    requests.dedup();
    assert_eq!(requests.len(), received);
}

#[tokio::test]
async fn an_answer_is_read_up_to_the_callers_limit() {
    const MAX: usize = 10_000;
    let chunked = |bytes: usize| {
        let mut answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for chunk in body_of(bytes).chunks(1000) {
            answer.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            answer.extend_from_slice(chunk);
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        Answer::new(answer, Then::Close)
    };
    let until_close = |bytes: usize| {
        let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        Answer::new([head, body_of(bytes)].concat(), Then::Close)
    };
    let announced = |bytes: usize| Answer::whole("200 OK", body_of(bytes));
    for answer in [&chunked as &dyn Fn(usize) -> Answer, &until_close, &announced] {
        for (bytes, fits) in [(0, true), (MAX, true), (MAX + 1, false)] {
            let server = Server::once([answer(bytes)]).await;
            let body = get(&client(loopback()), &server.url("/")).await.unwrap().into_body();
            match body.collect(MAX).await {
                Ok(body) => assert!(fits && body.len() == bytes),
                Err(OutboundError::TooLarge { bytes_max: MAX, .. }) => assert!(!fits),
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

/// A length beyond the limit is refused before anything of the body has arrived.
#[tokio::test]
async fn an_announced_length_beyond_the_limit_is_not_waited_for() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\n";
    let server = Server::once([Answer::new(head, Then::Hang)]).await;
    let response = get(&client(loopback()), &server.url("/")).await.unwrap();
    let error = response.into_body().collect(10).await.unwrap_err();
    assert_eq!(error.to_string(), "127.0.0.1 answered with more than 10 bytes");
}

#[track_caller]
fn check_fault(bytes: &'static str, then: Then, expected: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async {
        let server = Server::once([Answer::new(bytes, then)]).await;
        match get(&client(loopback()), &server.url("/")).await {
            Ok(response) => response.into_body().collect(1000).await.unwrap_err(),
            Err(error) => error,
        }
    });
    let found = match &error {
        OutboundError::Broken { .. } => "broken",
        OutboundError::Malformed { .. } => "malformed",
        _ => "other",
    };
    assert_eq!(found, expected, "{error:?}");
    assert!(!error.is_unsent());
}

#[test]
fn answers_that_break_off_are_told_from_answers_that_are_not_http() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    check_fault("", Then::Close, "broken");
    check_fault("", Then::Reset, "broken");
    check_fault("HTTP/1.1 200 OK\r\nx: y", Then::Close, "broken");
    check_fault("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", Then::Close, "broken");
    check_fault("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", Then::Reset, "broken");
    check_fault(&*format!("{CHUNKED}5\r\nhello").leak(), Then::Close, "broken");
    check_fault(&*format!("{CHUNKED}5\r\nhello\r\n").leak(), Then::Reset, "broken");
    check_fault(&*format!("{CHUNKED}wat\r\n").leak(), Then::Hang, "malformed");
    check_fault(&*format!("{CHUNKED}5\r\nhellowat\r\n").leak(), Then::Hang, "malformed");
    check_fault("220 mail.example ESMTP\r\n", Then::Hang, "malformed");
    check_fault("HTTP/1.1 200 OK\r\nbad field\r\n\r\n", Then::Hang, "malformed");
}

/// hyper looks at its buffer's limit before it reads, so a head may be longer by one read.
#[tokio::test]
async fn a_head_may_be_as_long_as_a_connections_buffer() {
    let max = limits::HEAD_BYTES_MAX;
    for (bytes, fits) in [(max - 200, true), (3 * max, false)] {
        let head = format!("200 OK\r\nx: {}", "x".repeat(bytes));
        let server = Server::once([Answer::whole(&head, "")]).await;
        let answer = get(&client(loopback()), &server.url("/")).await;
        assert_eq!(answer.is_ok(), fits, "{bytes}");
    }
}

#[tokio::test]
async fn pieces_are_there_as_soon_as_they_arrive() {
    let bytes = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\ndata: \r\n";
    let server = Server::once([Answer::new(bytes, Then::Hang)]).await;
    let response = get(&client(loopback()), &server.url("/")).await.unwrap();
    let mut body = response.into_body();
    assert_eq!(body.chunk().await.unwrap().unwrap(), "data: ");
}

/// Dropped while it waits for the answer, and while it waits for the body.
#[tokio::test]
async fn dropping_a_request_closes_its_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"] {
        let client = client(loopback());
        let url = url.clone();
        let waiting = tokio::spawn(async move {
            let mut body = get(&client, &url).await.unwrap().into_body();
            while body.chunk().await.is_some() {}
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut head).await.unwrap();
        assert!(read > 0);
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
        waiting.abort();
        let end = tokio::io::AsyncReadExt::read(&mut stream, &mut head).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
}

fn redirect_to(location: &str) -> Answer {
    Answer::whole(&format!("302 Found\r\nlocation: {location}"), "")
}

fn following(redirects_max: usize) -> Client {
    Client::new(ClientOptions { redirects_max, ..ClientOptions::new(loopback()) })
}

#[tokio::test]
async fn a_redirect_is_an_answer_unless_it_is_to_be_followed() {
    let server = Server::once([redirect_to("/next")]).await;
    let response = get(&client(loopback()), &server.url("/")).await.unwrap();
    assert_eq!(response.status(), 302);
}

#[tokio::test]
async fn redirects_on_the_same_origin_are_followed_up_to_a_number() {
    let answers = |count: usize| {
        let redirects = (0..count).map(|_| redirect_to("next?again=1"));
        redirects.chain([Answer::json("7")]).collect::<Vec<_>>()
    };
    let server = Server::once(answers(3)).await;
    let response = get(&following(3), &server.url("/a/b")).await.unwrap();
    assert_eq!(read(response).await, (200, "7".to_owned()));
    let lines = server.requests();
    assert!(lines[1].starts_with("GET /a/next?again=1 HTTP/1.1\r\n"), "{lines:?}");

    let server = Server::once(answers(4)).await;
    let error = get(&following(3), &server.url("/")).await.unwrap_err();
    assert!(matches!(error, OutboundError::Redirects { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn redirects_elsewhere_are_not_followed() {
    let other = Server::start(Vec::new()).await;
    for location in [
        other.url("/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "http://[::ffff:169.254.169.254]/".to_owned(),
        "//localhost/".to_owned(),
        "https://127.0.0.1/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "http://user:secret@127.0.0.1/".to_owned(),
    ] {
        let server = Server::once([redirect_to(&location)]).await;
        let response = get(&following(3), &server.url("/")).await.unwrap();
        assert_eq!(response.status(), 302, "{location}");
        assert_eq!(server.requests().len(), 1);
    }
    assert_eq!(other.connections(), 0);
}

/// The name of the origin moves between the hops.
#[tokio::test]
async fn the_address_of_each_hop_is_checked() {
    let redirect = "HTTP/1.1 302 Found\r\nlocation: /next\r\nconnection: close\r\n\r\n";
    let server = Server::start(vec![vec![Answer::new(redirect, Then::Close)]]).await;
    let (client, _) = client_that_finds(loopback(), &[&["127.0.0.1"], &["127.0.0.2"]]);
    let options = ClientOptions { redirects_max: 3, ..(*client.options).clone() };
    let client = Client { options: Arc::new(options), ..client };
    let url = format!("http://shop.example:{}/", server.address.port());
    let error = get(&client, &url).await.unwrap_err();
    assert!(matches!(error, OutboundError::Private { .. }), "{error:?}");
}

#[tokio::test]
async fn only_get_is_redirected() {
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::HEAD] {
        let server = Server::once([redirect_to("/next")]).await;
        let response = following(3).send(request(method, &server.url("/"))).await.unwrap();
        assert_eq!(response.status(), 302);
    }
}
