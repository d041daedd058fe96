//! Connections that nothing can forget: both ends in one network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use crate::{
    report::LeftOut,
    scene::{FAMILIES, Family, Scene},
    socket::Connection,
};

/// A connection within the client's namespace.
fn connect_within(scene: &Scene, address: IpAddr) -> Connection {
    scene.client.enter(|| {
        let listener = TcpListener::bind(SocketAddr::new(address, 0)).expect("listen");
        let to = listener.local_addr().expect("a listener has an address");
        let mut connection = Connection::new(TcpStream::connect(to), &listener);
        connection.ask();
        connection
    })
}

#[test]
fn loopback_peers_are_left_out_and_counted() {
    let scene = Scene::new();
    let _v4 = connect_within(&scene, Ipv4Addr::LOCALHOST.into());
    let _v6 = connect_within(&scene, Ipv6Addr::LOCALHOST.into());
    let report = scene.check_client(&["--limit", "900s"]).report(0);
    assert_eq!(report.connections, []);
    // Each end is a socket of its own.
    assert_eq!(report.left_out, LeftOut { loopback: 4, same_namespace: 0 });
    let said = scene.check_client(&["--limit", "900s"]).run();
    assert!(said.stdout.contains("Left out: 4 on loopback.\n"), "{}", said.stdout);
}

#[test]
fn peers_on_an_address_of_their_own_namespace_are_left_out_and_counted() {
    let scene = Scene::new();
    let _connections = FAMILIES.map(|family| connect_within(&scene, scene.client.address(family)));
    let report = scene.check_client(&["--limit", "900s"]).report(0);
    assert_eq!(report.connections, []);
    assert_eq!(report.left_out, LeftOut { loopback: 0, same_namespace: 4 });
}

#[test]
fn ask_and_rescue_say_that_nothing_else_was_named() {
    let scene = Scene::new();
    let connection = connect_within(&scene, Ipv4Addr::LOCALHOST.into());
    let port = connection.local().rsplit_once(':').expect("a port").1.to_owned();
    let netns = scene.client.name.as_str();
    for command in [
        vec!["ask", "--netns", netns, "--port", &port],
        vec!["rescue", "--netns", netns, "--port", &port],
        vec!["rescue", "--netns", netns, "--port", &port, "--close-dead"],
    ] {
        let said = scene.program(&command).run();
        assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{said:#?}");
        assert!(said.stdout.contains("Left out: 2 on loopback.\n"), "{said:#?}");
    }
}

#[test]
fn a_limit_that_names_them_brings_them_in() {
    let scene = Scene::new();
    let v4 = connect_within(&scene, Ipv4Addr::LOCALHOST.into());
    let v6 = connect_within(&scene, Ipv6Addr::LOCALHOST.into());
    let own = connect_within(&scene, scene.client.address(Family::V4));
    for (limit, named, local) in [
        ("900s@127.0.0.0/8".to_owned(), &v4, LeftOut { loopback: 2, same_namespace: 2 }),
        ("900s@::1".to_owned(), &v6, LeftOut { loopback: 2, same_namespace: 2 }),
        (
            format!("900s@{}", scene.client.address(Family::V4)),
            &own,
            LeftOut { loopback: 4, same_namespace: 0 },
        ),
    ] {
        let report = scene.check_client(&["--limit", &limit]).report(1);
        assert_eq!(report.row(named).verdict, "at_risk", "{limit}");
        assert_eq!(report.connections.len(), 2, "{limit}: {report:#?}");
        assert_eq!(report.left_out, local, "{limit}");
    }
}
