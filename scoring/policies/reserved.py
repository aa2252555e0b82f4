"""Rules that no policy file has: a decision names one of them where no rule of the policy decided."""

from enum import StrEnum


class ReservedRule(StrEnum):
    """Name of such a rule, as `decisions.parquet` has it. docs/filter.md lists them with their meaning."""

    meaning: str
    """When a decision names it."""

    def __new__(cls, name: str, meaning: str) -> "ReservedRule":
        rule = str.__new__(cls, name)
        rule._value_ = name
        rule.meaning = meaning
        return rule

    DEFAULT = "(default)", "no rule of the policy matches; the policy's `default` decides"
    QUARANTINED = "(quarantined)", "the picture could not be scored; the policy's `quarantined` decides"
    SCREENED = "(screened)", "a screen left the picture out; the policy's `screened` decides"
    GUARANTEE = "(guarantee)", "the picture reaches the threshold of the policy's `guarantee`"
    UNREADABLE = "(unreadable)", "there are no bytes that could be copied"
    DAMAGED_SHARD = "(damaged_shard)", "the row is about a damaged part of a shard, not about a picture"
    HASH_LIST = "(hash_list)", "the picture is on the hash list"
    NOT_COMPARED = "(not_compared)", "the picture cannot be compared with the hash list"
    REMOVED_BEFORE = "(removed_before)", "the picture was taken down from the release that `--previous` names"
    NOT_LISTED = "(not_listed)", "no row of the table of `--urls` has the URL of the picture"
    UNSAFE_MEMBER = "(unsafe_member)", "a file that belongs to the picture cannot be released safely"
    NOT_CLEANED = "(not_cleaned)", "the picture cannot be written without what was not scanned"
    NOT_COVERED = "(not_covered)", "what a rule covers was still found afterwards, or the picture cannot be written"
    TAKEDOWN = "(takedown)", "the picture was taken down after the release"
