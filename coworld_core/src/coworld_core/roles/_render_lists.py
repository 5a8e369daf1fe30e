"""What a page of a report may consist of, beside SVG: lists of names. What is on none of them is refused."""

from __future__ import annotations

from ..text.svg_names import names_in

__all__ = [
    "ADDRESS_FUNCTIONS",
    "AT_RULES",
    "CSS_FUNCTIONS",
    "HTML_ATTRIBUTES",
    "HTML_ELEMENTS",
    "MATH_ATTRIBUTES",
    "MATH_ELEMENTS",
]


HTML_ELEMENTS = names_in("""
    html head body title meta link style script noscript
    article aside nav section header footer main hgroup h1 h2 h3 h4 h5 h6 address search
    p hr pre blockquote ol ul menu li dl dt dd figure figcaption div center dir
    a em strong small s cite q dfn abbr ruby rb rt rtc rp data time code var samp kbd sub sup i b u mark bdi bdo span br
    wbr ins del tt big strike font nobr acronym
    img picture source audio video track map area canvas
    table caption colgroup col thead tbody tfoot tr th td
    button input label select optgroup option datalist textarea progress meter output fieldset legend details summary
    dialog
""")
"""Elements of HTML, beside those with a hyphen, which only scripts bring to life."""

HTML_ATTRIBUTES = names_in("""
    id class title lang dir hidden tabindex accesskey role translate draggable contenteditable spellcheck autofocus
    inert inputmode enterkeyhint autocapitalize popover popovertarget popovertargetaction slot part nonce
    itemscope itemtype itemid itemprop itemref property typeof vocab prefix about resource xmlns xml:lang version
    align valign width height border bgcolor color size face cellpadding cellspacing colspan rowspan headers scope abbr
    axis nowrap rules frame summary char charoff span start reversed type value name content media for rel rev hreflang
    target download alt ismap usemap shape coords loading decoding fetchpriority crossorigin integrity sizes controls
    autoplay loop muted preload playsinline kind srclang label default datetime open min max low high optimum step
    pattern placeholder checked selected disabled readonly required multiple maxlength minlength list cols rows wrap
    autocomplete noshade compact clear hspace vspace text link vlink alink marginheight marginwidth topmargin leftmargin
    async defer nomodule language
""")
"""Attributes of HTML whose values are neither addresses nor styles, beside `data-…` and `aria-…`."""

MATH_ELEMENTS = names_in("""
    math mrow mi mn mo ms mtext mspace msub msup msubsup mfrac msqrt mroot munder mover munderover mtable mtr mlabeledtr
    mtd mstyle merror mpadded mphantom menclose mfenced mmultiscripts mprescripts none semantics annotation
""")
"""Elements of MathML, without those that hold HTML or pictures, or act."""

MATH_ATTRIBUTES = names_in("""
    id class dir lang xmlns display displaystyle scriptlevel mathvariant mathcolor mathbackground mathsize alttext
    accent accentunder align columnalign columnlines columnspacing columnspan rowalign rowlines rowspacing rowspan
    equalcolumns equalrows frame framespacing stretchy symmetric maxsize minsize largeop movablelimits form fence
    separator separators open close lspace rspace linethickness bevelled numalign denomalign notation width height
    depth voffset encoding superscriptshift subscriptshift side minlabelspacing selection linebreak
""")
"""Attributes of MathML."""

AT_RULES = names_in("""
    media supports layer container page font-face font-feature-values font-palette-values counter-style property scope
    keyframes -webkit-keyframes -moz-keyframes -o-keyframes starting-style position-try view-transition charset viewport
    -ms-viewport styleset stylistic character-variant swash ornaments annotation historical-forms
    top-left-corner top-left top-center top-right top-right-corner bottom-left-corner bottom-left bottom-center
    bottom-right bottom-right-corner left-top left-middle left-bottom right-top right-middle right-bottom
""")
"""At-rules of CSS: none fetches or says where something is."""

CSS_FUNCTIONS = names_in("""
    rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix color-contrast light-dark contrast-color device-cmyk
    calc calc-size min max clamp round mod rem sin cos tan asin acos atan atan2 pow sqrt hypot log exp abs sign var env
    attr if random progress sibling-index sibling-count toggle -webkit-calc -moz-calc
    linear-gradient radial-gradient conic-gradient repeating-linear-gradient repeating-radial-gradient
    repeating-conic-gradient -webkit-linear-gradient -webkit-radial-gradient -webkit-repeating-linear-gradient
    -webkit-repeating-radial-gradient -webkit-gradient -moz-linear-gradient -moz-radial-gradient -o-linear-gradient
    -ms-linear-gradient from to color-stop cross-fade -webkit-cross-fade
    matrix matrix3d perspective rotate rotate3d rotatex rotatey rotatez scale scale3d scalex scaley scalez skew skewx
    skewy translate translate3d translatex translatey translatez
    blur brightness contrast drop-shadow grayscale hue-rotate invert opacity saturate sepia alpha
    circle ellipse inset polygon path rect xywh shape ray palette-mix
    cubic-bezier steps linear spring scroll view
    counter counters symbols leader target-counter target-counters target-text content string running
    minmax repeat fit-content anchor anchor-size stylistic styleset character-variant swash ornaments annotation
    local format tech selector font-tech font-format style scroll-state layer supports
    not is where has matches -webkit-any -moz-any nth-child nth-last-child nth-of-type nth-last-of-type nth-col
    nth-last-col lang dir host host-context slotted part cue state current highlight active-view-transition-type
    view-transition-group view-transition-image-pair view-transition-old view-transition-new
""")
"""Functions of CSS that cannot hold an address as text."""

ADDRESS_FUNCTIONS = names_in("url src image image-set -webkit-image-set")
"""Functions of CSS whose texts are addresses; they are checked."""
