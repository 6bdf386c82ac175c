"""The differences from Apache Kafka that we accept, each with its reason; docs/compatibility.md shows this table.

An entry holds for the cases and paths that its patterns match (as file names are matched). One that matches no
difference of a run is stale and fails the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    """One difference: in which cases, at which paths of the answer, and why."""

    cases: str
    path: str
    reason: str


NOT_SERVED_YET = "the API is not served yet, and ApiVersions names only what is"
NO_WORD_FOR_FRAMES = "that the header of a batch cannot be is said by the code alone"
NO_WORD_FOR_SUCCESS = "where Kafka's message for success is the word NONE, ours is null"
AT_ONCE = "a topic that is created for a Metadata request is in the answer at once, not only when the client asks again"
BROKERS_TOO = "a topic id before version 12 is an error of the topic; the brokers are still named"
LEFT_OUT = "a topic with neither name nor id is left out, where Kafka answers UNKNOWN_SERVER_ERROR"
A_BETTER_CODE = "the code says what is wrong, where Kafka answers UNKNOWN_SERVER_ERROR"
KAFKA_IS_SILENT = "Kafka never answers these; ours is refused"
LIMIT = "a negative limit is as good as none, where Kafka answers UNKNOWN_SERVER_ERROR"
ISOLATION = "only 1 means read committed, where Kafka answers UNKNOWN_SERVER_ERROR"
EACH = "each of two rows for the same partition is answered, where Kafka keeps one of them"
NODE_1 = "a standalone node is node 1 by default"
FIRST_GROUP = "the coordinator is known at once, where Kafka first makes the topic for offsets"
PATTERNS = "a pattern is matched with the topics at once, where Kafka does it some time later"
STRICT = "what is no UTF-8, or has an impossible length, is malformed here, and the connection is closed"
WORDS_TOO = "UNKNOWN_SERVER_ERROR comes with what is wrong, where Kafka's comes without a word"
UNSUPPORTED = "UNSUPPORTED_VERSION comes with what is missing, where Kafka's comes without a word"
NO_ENDPOINT = "a member with an endpoint hears that source topics are missing, where Kafka answers UNKNOWN_SERVER_ERROR"
TOLD_AGAIN = "a member is told its tasks until it says that it has them, where Kafka says them once"
NOT_READY = "the state NotReady is also found by its name, where Kafka only knows it as not_ready"
OF_OUR_OWN = "settings that Kafka 4.3 does not have, all of them off"
NO_LOG = "where the log starts is said with every record that is refused"

ACCEPTED = (
    Accepted("api versions v?", "api_keys.*", NOT_SERVED_YET),
    Accepted("api versions with* client id", "api_keys.*", NOT_SERVED_YET),
    Accepted("api versions ? with bytes left over", "api_keys.*", NOT_SERVED_YET),
    Accepted("no client id", "api_keys.*", NOT_SERVED_YET),
    Accepted("a long client id", "api_keys.*", NOT_SERVED_YET),
    Accepted("metadata that creates a topic v*", "topics.auto-v*", AT_ONCE),
    Accepted("metadata of a topic by id v10", "*", BROKERS_TOO),
    Accepted("metadata of a null name", "*", LEFT_OUT),
    Accepted("produce null records", "*", KAFKA_IS_SILENT),
    Accepted("produce with records of negative length v3", "*", KAFKA_IS_SILENT),
    Accepted("produce to a partition twice", "responses.*", EACH),
    Accepted("produce empty records", "responses.*.log_start_offset", NO_LOG),
    Accepted("produce two batches", "responses.*.log_start_offset", NO_LOG),
    Accepted("produce an old message set", "responses.*.log_start_offset", NO_LOG),
    Accepted("produce a cut *", "responses.*.log_start_offset", NO_LOG),
    Accepted("produce magic 3", "responses.*.error_message", NO_WORD_FOR_FRAMES),
    Accepted("produce a batch that claims to be tiny", "responses.*.error_message", NO_WORD_FOR_FRAMES),
    Accepted("produce a batch of negative length", "responses.*.error_message", NO_WORD_FOR_FRAMES),
    Accepted("fetch negative bytes", "responses.*", LIMIT),
    Accepted("fetch with an odd isolation level", "*", ISOLATION),
    Accepted("offset of a partition twice", "topics.*", EACH),
    Accepted("configs of the broker with synonyms", "results.1.configs.node.id.*", NODE_1),
    Accepted("configs of a group", "results.*.configs.errors.deadletterqueue.*", OF_OUR_OWN),
    Accepted("configs of a group", "results.*.configs.kavka.*", OF_OUR_OWN),
    Accepted("an unknown operation", "responses.*", A_BETTER_CODE),
    Accepted("a feature *", "results.*", NO_WORD_FOR_SUCCESS),
    Accepted("lower a feature*", "results.*", NO_WORD_FOR_SUCCESS),
    Accepted("raise a feature: streams", "results.*", NO_WORD_FOR_SUCCESS),
    Accepted("a client id of length -2", "*", STRICT),
    Accepted("a client id that is not UTF-8", "*", STRICT),
    Accepted("metadata with a name that is not UTF-8", "*", STRICT),
    Accepted("the coordinator of a group v0", "*", FIRST_GROUP),
    Accepted("the coordinator of a* group*", "*error_message", NO_WORD_FOR_SUCCESS),
    Accepted("the coordinators of groups v?", "*error_message", NO_WORD_FOR_SUCCESS),
    Accepted("find the coordinator of the groups", "*.error_message", NO_WORD_FOR_SUCCESS),
    Accepted("turn consumer groups on", "*.error_message", NO_WORD_FOR_SUCCESS),
    Accepted("transaction: a coordinator", "*error_message", NO_WORD_FOR_SUCCESS),
    Accepted("share fetch: topics that are not there", "*", A_BETTER_CODE),
    Accepted("list: groups of both types", "groups.patterns.group_state", PATTERNS),
    Accepted("streams: a negative topology epoch", "error_message", WORDS_TOO),
    Accepted("streams: a subtopology twice", "error_message", WORDS_TOO),
    Accepted("streams: a copartition group of nothing", "error_message", WORDS_TOO),
    Accepted("streams: * without the feature", "error_message", UNSUPPORTED),
    Accepted("streams: an endpoint without sources", "*", NO_ENDPOINT),
    Accepted("streams: leaves without sources", "*", NO_ENDPOINT),
    Accepted("delete: a group without sources", "*", NO_ENDPOINT),
    Accepted("streams moving: has not given back", "*_tasks", TOLD_AGAIN),
    Accepted("streams moving: does not say what it has", "*_tasks", TOLD_AGAIN),
    Accepted("streams living: its source is missing", "*_tasks", TOLD_AGAIN),
    Accepted("list: in the state NotReady", "groups", NOT_READY),
)
