//! A node that is cut off from the catalog: it takes current events for as long as its promise reaches,
//! then none, then goes on; and whatever others changed meanwhile, nothing is misplaced.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use braid_shared::catalog::{Catalog, NewLayout, Shared};
use braid_shared::clock::Clock;
use braid_shared::model::{Span, Timestamp};

use super::{Answer, NOW, Server, event, server};

/// Writes the event of second `i`, now.
async fn write(server: &Server, i: i64) -> Answer {
    server.post("/v1/shop/events", event("k", &format!("e{i:02}"), -i)).await
}

fn at(i: i64) -> Timestamp {
    Timestamp::from_nanos(NOW.nanos() + i * Span::SECOND.nanos())
}

#[tokio::test(start_paused = true)]
async fn current_writes_go_on_for_the_lease_then_503_then_on_again_and_nothing_is_misplaced() {
    let server = server().await;
    let clock: Arc<dyn Clock> = server.clock.clone();
    let other = Catalog::open(server.store.inner.clone(), clock, Shared::default()).await.unwrap();
    let mut acknowledged = Vec::new();
    let mut refused = Vec::new();
    for i in 0..30 {
        if i == 5 {
            server.store.catalog_down.store(true, Ordering::SeqCst);
            other.publish_layout(&"shop".parse().unwrap(), Some("k"), NewLayout::of(16)).await.unwrap();
        }
        if i == 20 {
            server.store.catalog_down.store(false, Ordering::SeqCst);
        }
        let horizon = server.catalog.view().horizon;
        let answer = write(&server, i).await;
        match answer.status.as_u16() {
            200 => acknowledged.push(format!("e{i:02}")),
            _ => {
                assert_eq!((answer.status.as_u16(), answer.code()), (503, "layout_stale"));
                assert_eq!(answer.headers["retry-after"], "1");
                assert!(at(i) >= horizon, "below its horizon a node needs nobody");
                refused.push(i);
            }
        }
        server.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(
        refused,
        (10..20).collect::<Vec<_>>(),
        "five seconds into the outage the lead is used up; the first write after it is taken"
    );
    assert_eq!(server.ids("shop", "k").await, acknowledged);
    let view = other.refresh().await.unwrap();
    let epochs = view.namespace(&"shop".parse().unwrap()).unwrap().listed(Some("k"));
    assert_eq!(epochs[0].from, at(10), "the change took effect where the promise of the node that was cut off ended");
}
