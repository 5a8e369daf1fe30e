from ._coworlds import Certified as Certified
from ._coworlds import Uncertified as Uncertified
from ._coworlds import UploadedCoworld as UploadedCoworld
from ._images import ImageProgress as ImageProgress
from ._images import OnImage as OnImage
from ._images import UploadedImage as UploadedImage
from ._images import image_name as image_name
