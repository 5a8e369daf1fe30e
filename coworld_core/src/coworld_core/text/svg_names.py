"""SVG from strangers: what a report's page may have of it, and the less of it that stands in one of our own pages."""

from __future__ import annotations

__all__ = [
    "ANIMATIONS",
    "INLINE_SVG",
    "SVG_ATTRIBUTES",
    "SVG_ELEMENTS",
    "SVG_STYLES",
    "names_in",
]


def names_in(text: str) -> frozenset[str]:
    """The words of a text, as a list of names that is easy to read."""
    return frozenset(text.split())


SVG_ELEMENTS = names_in("""
    svg g defs symbol use switch view title desc metadata style a
    path rect circle ellipse line polyline polygon text tspan textPath image
    linearGradient radialGradient stop pattern clipPath mask marker filter
    feBlend feColorMatrix feComponentTransfer feComposite feConvolveMatrix feDiffuseLighting feDisplacementMap
    feDistantLight feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR feGaussianBlur feImage feMerge feMergeNode
    feMorphology feOffset fePointLight feSpecularLighting feSpotLight feTile feTurbulence
    animate animateMotion animateTransform mpath set
""")
"""Elements of SVG."""

ANIMATIONS = names_in("animate animateMotion animateTransform set")
"""Elements that change an attribute of another element."""

SVG_ATTRIBUTES = names_in("""
    id class lang tabindex role focusable version baseProfile xml:space xml:lang xmlns x y x1 y1 x2 y2 width height
    viewBox preserveAspectRatio d points r rx ry cx cy fx fy fr dx dy rotate pathLength textLength lengthAdjust
    startOffset method spacing side transform gradientTransform gradientUnits patternTransform patternUnits
    patternContentUnits clipPathUnits maskUnits maskContentUnits markerUnits markerWidth markerHeight orient refX refY
    offset spreadMethod filterUnits primitiveUnits in in2 result stdDeviation edgeMode type tableValues slope intercept
    amplitude exponent mode operator k1 k2 k3 k4 order kernelMatrix kernelUnitLength divisor bias targetX targetY
    preserveAlpha surfaceScale specularConstant specularExponent diffuseConstant azimuth elevation pointsAtX pointsAtY
    pointsAtZ z limitingConeAngle baseFrequency numOctaves seed stitchTiles scale xChannelSelector yChannelSelector
    radius begin dur end min max restart repeatCount repeatDur calcMode keyTimes keySplines keyPoints path origin
    additive accumulate attributeType media systemLanguage requiredFeatures requiredExtensions zoomAndPan
    contentStyleType enable-background viewTarget target rel download title name crossorigin decoding
    xlink:type xlink:show xlink:title xlink:role xlink:arcrole
""")
"""Attributes of SVG whose values are neither addresses nor styles."""

SVG_STYLES = names_in("""
    style alignment-baseline baseline-shift clip clip-path clip-rule color color-interpolation
    color-interpolation-filters color-profile color-rendering cursor direction display dominant-baseline fill
    fill-opacity fill-rule filter flood-color flood-opacity font font-family font-size font-size-adjust font-stretch
    font-style font-variant font-weight glyph-orientation-horizontal glyph-orientation-vertical image-rendering
    isolation kerning letter-spacing lighting-color marker marker-end marker-mid marker-start mask mask-type
    mix-blend-mode opacity overflow paint-order pointer-events shape-rendering solid-color solid-opacity stop-color
    stop-opacity stroke stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit
    stroke-opacity stroke-width text-align text-anchor text-decoration text-overflow text-rendering transform-origin
    unicode-bidi vector-effect visibility white-space word-spacing writing-mode
    from to by values
""")
"""Attributes of SVG that are read as CSS; the last line is what an animation sets."""

INLINE_SVG = {
    "elements": SVG_ELEMENTS - names_in("a image feImage style switch view metadata"),
    "attributes": SVG_ATTRIBUTES
    - names_in("""
        id class tabindex role focusable version baseProfile xml:space xml:lang xmlns media requiredFeatures
        requiredExtensions zoomAndPan contentStyleType enable-background viewTarget target rel download title name
        crossorigin decoding xlink:type xlink:show xlink:title xlink:role xlink:arcrole
    """)
    | names_in("data-action data-field data-value"),
    "styles": SVG_STYLES - names_in("style color-profile cursor"),
    "functions": names_in("""
        rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix light-dark calc min max clamp
        matrix translate translatex translatey rotate scale scalex scaley skewx skewy
        blur brightness contrast drop-shadow grayscale hue-rotate invert opacity saturate sepia
    """),
    "animations": ANIMATIONS,
}
"""What the pages of games copy of a picture, which is then a part of the page: its elements; their attributes, and
those that are CSS, with the functions that these may call beside `url(#…)`; the elements that change an attribute. An
`id` is the picture's own, and an `href` leads to one of them. What links, loads or styles the page is left out."""
