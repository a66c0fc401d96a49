//! The one suite: what every store and every wrapper must do, one function a property.
//!
//! Panics where a property does not hold. Each property uses a namespace of its own, so that one
//! store can be put through all of them, and again after a restart.

mod blocks;
mod compacting;
mod directory;
mod documents;
mod fixture;
mod scans;

use std::sync::Arc;

pub use self::fixture::{Fixture, block, blocks_of, partition, read_all, scan_of};
use super::Store;

/// Runs every property. `tag` keeps runs on one store apart.
pub async fn run(store: Arc<dyn Store>, tag: &str) {
    let fixture = |name: &str| Fixture::new(store.clone(), &format!("{tag}_{name}"));

    blocks::a_block_appended_again_changes_nothing(fixture("again")).await;
    blocks::blocks_of_many_partitions_stand_together(fixture("many")).await;
    blocks::a_large_block_comes_back_byte_for_byte(fixture("large")).await;
    blocks::a_delete_removes_exactly_the_blocks_it_names(fixture("exact")).await;
    blocks::deleting_what_is_not_there_is_no_error(fixture("absent")).await;
    blocks::appends_at_the_same_time_all_stand(fixture("racing")).await;

    scans::blocks_of_a_partition_come_in_the_order_of_their_addresses(fixture("order")).await;
    scans::a_scan_gives_the_blocks_that_overlap_its_range_and_no_others_are_needed(fixture("range")).await;
    scans::a_block_that_reaches_into_a_range_is_found_however_long_ago_it_began(fixture("reaching")).await;
    scans::what_a_store_narrows_a_range_to_holds_enough(fixture("narrow")).await;
    scans::an_empty_range_still_answers_every_partition(fixture("emptyrange")).await;
    scans::every_partition_is_answered_once_also_one_without_blocks(fixture("answered")).await;
    scans::neighbours_in_the_key_space_do_not_see_each_other(fixture("neighbours")).await;
    scans::a_scan_pages_to_its_end(fixture("pages")).await;
    scans::sparse_partitions_are_found_among_many_others(fixture("sparse")).await;
    scans::partitions_of_different_keys_are_scanned_together(fixture("keys")).await;

    compacting::a_replace_puts_new_blocks_in_the_place_of_exactly_the_old(fixture("replace")).await;
    compacting::the_small_blocks_of_a_partition_lie_where_the_store_says(fixture("smallrange")).await;
    compacting::a_scan_under_way_never_sees_a_replace_half_done(fixture("midreplace")).await;
    compacting::a_partition_of_many_small_blocks_is_found_and_then_no_more(fixture("fragments")).await;

    documents::a_document_is_read_as_it_was_written(fixture("written")).await;
    documents::a_swap_that_expects_something_else_writes_nothing(fixture("conflict")).await;
    documents::of_racing_swaps_one_wins(fixture("race")).await;
    documents::a_read_that_begins_after_a_swap_sees_it(fixture("linear")).await;
    documents::an_etag_is_never_given_twice(fixture("etags")).await;

    directory::keys_come_in_byte_order_behind_the_one_that_was_last(fixture("names")).await;
    directory::keys_are_cut_to_their_prefix_and_namespace(fixture("prefix")).await;
    directory::days_come_ascending_within_their_bounds(fixture("days")).await;
}
